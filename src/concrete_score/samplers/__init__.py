"""Samplers: kernels that step batched chains, the loops around them, and what their draws are worth (paper, 3.3)."""

from concrete_score.samplers.combined import Composition as Composition
from concrete_score.samplers.combined import Tempered as Tempered
from concrete_score.samplers.combined import Tempering as Tempering
from concrete_score.samplers.combined import anneal as anneal
from concrete_score.samplers.gibbs import Gibbs as Gibbs
from concrete_score.samplers.gibbs import systematic as systematic
from concrete_score.samplers.independent import Ancestral as Ancestral
from concrete_score.samplers.independent import Exact as Exact
from concrete_score.samplers.informed import BALANCING as BALANCING
from concrete_score.samplers.informed import GibbsWithGradients as GibbsWithGradients
from concrete_score.samplers.informed import Informed as Informed
from concrete_score.samplers.langevin import MALA as MALA
from concrete_score.samplers.langevin import Langevin as Langevin
from concrete_score.samplers.mh import MetropolisHastings as MetropolisHastings
from concrete_score.samplers.multi_site import MultiSite as MultiSite
from concrete_score.samplers.multi_site import adapt as adapt
from concrete_score.samplers.run import Diagnosis as Diagnosis
from concrete_score.samplers.run import Draw as Draw
from concrete_score.samplers.run import Samples as Samples
from concrete_score.samplers.run import Summary as Summary
from concrete_score.samplers.run import run as run
from concrete_score.samplers.run import stream as stream
from concrete_score.samplers.run import summarize as summarize
from concrete_score.samplers.surrogates import Relaxable as Relaxable
from concrete_score.samplers.surrogates import Relaxed as Relaxed
from concrete_score.samplers.surrogates import relax as relax
