"""Objectives: draw what is random about a step, then a deterministic loss for each example (paper, section 4)."""

from concrete_score.objectives import divergences as divergences
from concrete_score.objectives.bregman import BregmanObjective as BregmanObjective
from concrete_score.objectives.build import build as build
from concrete_score.objectives.conditionals import SiteConditionalObjective as SiteConditionalObjective
from concrete_score.objectives.denoising import Denoising as Denoising
from concrete_score.objectives.divergences import Bregman as Bregman
from concrete_score.objectives.edges import Edges as Edges
from concrete_score.objectives.estimators import All as All
from concrete_score.objectives.estimators import EdgeEstimator as EdgeEstimator
from concrete_score.objectives.estimators import FiniteEstimator as FiniteEstimator
from concrete_score.objectives.estimators import Importance as Importance
from concrete_score.objectives.estimators import Independent as Independent
from concrete_score.objectives.estimators import Paired as Paired
from concrete_score.objectives.estimators import SelfProposal as SelfProposal
from concrete_score.objectives.estimators import Stratified as Stratified
from concrete_score.objectives.marginalization import discrete_marginalization as discrete_marginalization
from concrete_score.objectives.marginalization import (
    discrete_marginalization_uncorrected as discrete_marginalization_uncorrected,
)
from concrete_score.objectives.maximum_likelihood import MaximumLikelihood as MaximumLikelihood
from concrete_score.objectives.ratio_matching import ratio_matching_multiclass as ratio_matching_multiclass
from concrete_score.objectives.ratio_matching import ratio_matching_uncorrected as ratio_matching_uncorrected
