"""The paper's figures and tables, one file each: ``run(settings)`` gives findings beside the paper's."""

from concrete_score.experiments.result import Findings as Findings
from concrete_score.experiments.result import Result as Result
from concrete_score.experiments.result import Settings as Settings
from concrete_score.experiments.runner import reproduce as reproduce
