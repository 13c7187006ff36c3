"""Noise ``q(x̃ | x)`` with known ratios: site by site on discrete states, triangular between them."""

from concrete_score.noise.absorbing import Absorbing as Absorbing
from concrete_score.noise.absorbing import Reveals as Reveals
from concrete_score.noise.absorbing import absorbing as absorbing
from concrete_score.noise.factorized import FactorizedNoise as FactorizedNoise
from concrete_score.noise.families import SIGMAS as SIGMAS
from concrete_score.noise.families import binarized_gaussian as binarized_gaussian
from concrete_score.noise.families import categorical as categorical
from concrete_score.noise.families import flip_probability as flip_probability
from concrete_score.noise.families import symmetric as symmetric
from concrete_score.noise.triangular import Corners as Corners
from concrete_score.noise.triangular import Triangular as Triangular
