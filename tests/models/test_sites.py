"""Sites as numbers and numbers as sites."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.models.sites import SiteFeatures, SiteLogits
from tests.strategies import generators, spaces


@given(spaces(), st.data())
def test_features_tell_states_apart_and_each_site_keeps_its_own(space, data):
    order = torch.tensor(data.draw(st.permutations(range(space.num_sites))))
    features, states = SiteFeatures(space, order, torch.float64), space.enumerate()
    table = features(states)
    assert len(table.unique(dim=0)) == space.num_states
    widths = [1 if size <= 2 else size for size in space.sizes]
    assert table.shape == (space.num_states, sum(widths))
    assert features.site.tolist() == [d for d in order.tolist() for _ in range(widths[d])]
    for f, d in enumerate(features.site.tolist()):
        # A feature is a function of its site alone.
        for v in range(space.sizes[d]):
            assert len(table[states[:, d] == v, f].unique()) == 1


@given(spaces())
def test_features_of_one_site_are_the_columns_of_all(space):
    features, states = SiteFeatures(space, dtype=torch.float64), space.enumerate()
    start = 0
    for d, size in enumerate(space.sizes):
        columns = slice(start, start + (1 if size <= 2 else size))
        assert torch.equal(features.part(states[:, d], columns), features(states)[:, columns])
        start = columns.stop


@given(spaces(), generators())
def test_site_log_probs_are_the_softmax_of_each_sites_own_outputs(space, generator):
    sites = SiteLogits(space)
    outputs = torch.randn(2, 3, sites.out_features, generator=generator, dtype=torch.float64)
    found = sites.log_probs(outputs)
    assert found.shape == (2, 3, space.num_sites, max(space.sizes))
    start = 0
    for d, size in enumerate(space.sizes):
        torch.testing.assert_close(found[..., d, :size], outputs[..., start : start + size].log_softmax(-1))
        assert (found[..., d, size:] == -torch.inf).all()
        start += size
