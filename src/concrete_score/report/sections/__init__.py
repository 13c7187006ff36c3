"""The sections of a report, in their order: each a function from a `Subject` to a `Section`.

A new one is a new file here and a line below; what it says in ``verdicts`` appears in the overview by itself.
"""

from concrete_score.report.parts import MakeSection
from concrete_score.report.sections.configuration import configuration_section
from concrete_score.report.sections.dependence import dependence_section
from concrete_score.report.sections.examples import examples_section
from concrete_score.report.sections.grids import grids_section
from concrete_score.report.sections.leak import leak_section
from concrete_score.report.sections.likelihood import likelihood_section
from concrete_score.report.sections.marginals import marginals_section
from concrete_score.report.sections.sampler import sampler_section
from concrete_score.report.sections.training import training_section

TABLE: tuple[MakeSection, ...] = (
    likelihood_section,
    training_section,
    marginals_section,
    dependence_section,
    examples_section,
    sampler_section,
    leak_section,
    configuration_section,
)

SECTIONS: dict[str, tuple[MakeSection, ...]] = {
    "table": TABLE,
    "image": (grids_section, training_section, configuration_section),
}
"""By the kind of codec."""
