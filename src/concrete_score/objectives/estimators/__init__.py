"""Estimators: ways to draw the edges of a step (paper, section 4.2)."""

from concrete_score.objectives.estimators.all_neighbors import All as All
from concrete_score.objectives.estimators.all_neighbors import AllEdges as AllEdges
from concrete_score.objectives.estimators.base import EdgeEstimator as EdgeEstimator
from concrete_score.objectives.estimators.base import EdgeWeight as EdgeWeight
from concrete_score.objectives.estimators.base import FiniteEstimator as FiniteEstimator
from concrete_score.objectives.estimators.base import mirrored as mirrored
from concrete_score.objectives.estimators.importance import Importance as Importance
from concrete_score.objectives.estimators.independent import Independent as Independent
from concrete_score.objectives.estimators.paired import Paired as Paired
from concrete_score.objectives.estimators.self_proposal import SelfProposal as SelfProposal
from concrete_score.objectives.estimators.stratified import Stratified as Stratified
