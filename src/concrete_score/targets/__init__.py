"""Closed-form truths: distributions whose probabilities, and where possible samples, are exact."""

from concrete_score.targets.bayesian_network import BayesianNetwork as BayesianNetwork
from concrete_score.targets.bayesian_network import asia as asia
from concrete_score.targets.bayesian_network import random_network as random_network
from concrete_score.targets.boltzmann import RBM as RBM
from concrete_score.targets.boltzmann import Ising as Ising
from concrete_score.targets.boltzmann import random_rbm as random_rbm
from concrete_score.targets.factorial_hmm import FactorialHMM as FactorialHMM
from concrete_score.targets.factorial_hmm import random_factorial_hmm as random_factorial_hmm
from concrete_score.targets.graphs import disk_lattice as disk_lattice
from concrete_score.targets.graphs import erdos_renyi as erdos_renyi
from concrete_score.targets.graphs import independent_set as independent_set
from concrete_score.targets.graphs import lattice_edges as lattice_edges
from concrete_score.targets.graphs import potts as potts
from concrete_score.targets.graphs import spin_glass as spin_glass
from concrete_score.targets.graphs import torus_log_partition as torus_log_partition
from concrete_score.targets.pairwise import Pairwise as Pairwise
from concrete_score.targets.pmf import Pmf as Pmf
from concrete_score.targets.pmf import from_density as from_density
from concrete_score.targets.pmf import log_normalizer as log_normalizer
from concrete_score.targets.pmf import pmf as pmf
from concrete_score.targets.toys import TOYS as TOYS
from concrete_score.targets.toys import Toy as Toy
from concrete_score.targets.toys import low_density as low_density
from concrete_score.targets.toys import sine as sine
from concrete_score.targets.toys import sixteen_categories as sixteen_categories
from concrete_score.targets.toys import toy as toy
