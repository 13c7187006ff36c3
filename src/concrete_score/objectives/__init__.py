"""Objectives: draw what is random about a step, then a deterministic loss for each example (paper, section 4)."""

from concrete_score.objectives import divergences as divergences
from concrete_score.objectives.bregman import BregmanObjective as BregmanObjective
from concrete_score.objectives.build import build as build
from concrete_score.objectives.conditionals import SiteConditionalObjective as SiteConditionalObjective
from concrete_score.objectives.conditionals import discrete_marginalization as discrete_marginalization
from concrete_score.objectives.conditionals import (
    discrete_marginalization_uncorrected as discrete_marginalization_uncorrected,
)
from concrete_score.objectives.conditionals import ratio_matching_multiclass as ratio_matching_multiclass
from concrete_score.objectives.conditionals import ratio_matching_uncorrected as ratio_matching_uncorrected
from concrete_score.objectives.denoising import CleanValue as CleanValue
from concrete_score.objectives.denoising import Denoising as Denoising
from concrete_score.objectives.denoising import Noisy as Noisy
from concrete_score.objectives.divergences import Bregman as Bregman
from concrete_score.objectives.edges import Edges as Edges
from concrete_score.objectives.edges import EdgeWeight as EdgeWeight
from concrete_score.objectives.edges import mirrored as mirrored
from concrete_score.objectives.estimators import AllEdges as AllEdges
from concrete_score.objectives.estimators import EdgeEstimator as EdgeEstimator
from concrete_score.objectives.estimators import FiniteEstimator as FiniteEstimator
from concrete_score.objectives.estimators import IndependentEdges as IndependentEdges
from concrete_score.objectives.estimators import PairedEdges as PairedEdges
from concrete_score.objectives.estimators import StratifiedEdges as StratifiedEdges
from concrete_score.objectives.maximum_likelihood import MaximumLikelihood as MaximumLikelihood
from concrete_score.objectives.proposals import ImportanceEdges as ImportanceEdges
from concrete_score.objectives.proposals import SelfProposalEdges as SelfProposalEdges
from concrete_score.objectives.proposals import SelfWeighedEdges as SelfWeighedEdges
