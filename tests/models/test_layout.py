"""The autoregressive layout: degrees without gaps, and a plan that computes and writes everything once."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.models.layout import Layout
from concrete_score.models.sites import SiteFeatures
from tests.strategies import spaces

layouts = st.builds(Layout, spaces(max_sites=6), st.integers(1, 12), st.none() | st.integers(0, 5))


@given(layouts)
def test_degrees_rise_evenly_to_the_last_but_one_site(layout):
    last = layout.space.num_sites - 1
    degree = layout.degree
    assert (degree.diff() >= 0).all()
    assert degree[-1] == last
    if 0 < last <= layout.hidden:
        counts = torch.bincount(degree, minlength=last + 1)
        assert counts[0] == 0, "a unit that sees nothing is wasted"
        assert counts[1:].max() - counts[1:].min() <= 1


@given(layouts)
def test_every_unit_output_and_feature_has_its_turn_once_and_in_order(layout):
    site = SiteFeatures(layout.space, layout.order).site
    plan = layout.plan(site)
    assert [step.site for step in plan] == layout.order.tolist()
    assert [u for step in plan for u in range(layout.hidden)[step.units]] == list(range(layout.hidden))
    assert [f for step in plan for f in range(len(site))[step.features]] == list(range(len(site)))
    outputs = [c for step in plan for c in range(step.columns.start, step.columns.stop)]
    assert sorted(outputs) == list(range(len(layout.write_mask())))
    for step in plan:
        assert step.size == layout.space.sizes[step.site]
        assert (site[step.features] == step.site).all()
        # Ready units are the ones the outputs may see, and all that those units see is filled.
        assert (layout.write_mask()[step.columns].nonzero()[:, 1] < step.units.stop).all()
        assert layout.write_mask()[step.columns, : step.units.stop].all()
        assert layout.unit_mask()[step.units, : step.units.stop].all()
        assert layout.read_mask(site)[step.units, : step.features.start].all()
        assert not layout.read_mask(site)[step.units, step.features.start :].any()
