"""Models: densities (table, MADE, energy) and score networks (a trunk and a head); none knows of losses or samplers."""

from concrete_score.models.densities import Energy as Energy
from concrete_score.models.densities import Table as Table
from concrete_score.models.densities import energy as energy
from concrete_score.models.densities import table as table
from concrete_score.models.heads import DenoisingHead as DenoisingHead
from concrete_score.models.heads import Head as Head
from concrete_score.models.heads import LogRatioHead as LogRatioHead
from concrete_score.models.heads import RawHead as RawHead
from concrete_score.models.layers import ACTIVATIONS as ACTIVATIONS
from concrete_score.models.layers import SiteFeatures as SiteFeatures
from concrete_score.models.layers import SiteLogits as SiteLogits
from concrete_score.models.made import MADE as MADE
from concrete_score.models.made import made as made
from concrete_score.models.masked import IdealMasked as IdealMasked
from concrete_score.models.masked import Masked as Masked
from concrete_score.models.masked import MaskedNetwork as MaskedNetwork
from concrete_score.models.potts import Potts as Potts
from concrete_score.models.potts import coupling_strengths as coupling_strengths
from concrete_score.models.potts import potts as potts
from concrete_score.models.score import MLP as MLP
from concrete_score.models.score import DensityScore as DensityScore
from concrete_score.models.score import NoiseConditionalNetwork as NoiseConditionalNetwork
from concrete_score.models.score import ScoreAtLevel as ScoreAtLevel
from concrete_score.models.score import ScoreNetwork as ScoreNetwork
from concrete_score.models.score import Trunk as Trunk
from concrete_score.models.score import mlp as mlp
