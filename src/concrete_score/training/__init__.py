"""Training: one loop for every model and objective, guarded, resumable, on one process or many."""

from concrete_score.training.copies import FrozenCopy as FrozenCopy
from concrete_score.training.copies import PooledProposal as PooledProposal
from concrete_score.training.enumerated import Enumerated as Enumerated
from concrete_score.training.events import Checkpoint as Checkpoint
from concrete_score.training.events import Event as Event
from concrete_score.training.events import Finished as Finished
from concrete_score.training.events import Progress as Progress
from concrete_score.training.events import Validated as Validated
from concrete_score.training.events import WentBack as WentBack
from concrete_score.training.examples import Examples as Examples
from concrete_score.training.guard import Guard as Guard
from concrete_score.training.members import fit as fit
from concrete_score.training.members import train as train
from concrete_score.training.recipe import TrainingSettings as TrainingSettings
from concrete_score.training.state import Snapshot as Snapshot
