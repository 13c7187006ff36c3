"""The transformer: what each position sees, its heads and noises, and the causal twin."""

import pytest
import torch

from concrete_score import Space
from concrete_score.errors import InputError
from concrete_score.models import layers, transformer
from concrete_score.models.transformer import Transformer
from concrete_score.neighborhoods import grid, hamming, moore
from concrete_score.noise import absorbing, categorical
from concrete_score.objectives import build
from concrete_score.training.choice import choose

SMALL = {"width": 16, "depth": 2, "heads": 2, "dtype": torch.float64}


def made(space, **options):
    return transformer(hamming(space), generator=torch.Generator().manual_seed(0), **SMALL, **options)


@pytest.mark.parametrize("space", [Space((4,) * 6), Space((2, 3, 4, 2, 3, 2))])
@pytest.mark.parametrize("reach", [0, 2])
def test_a_hidden_site_sees_every_visible_one_and_nothing_else(space, reach):
    noise = absorbing(space)
    model, x = made(space, noise=noise, reach=reach), torch.zeros(1, 6, dtype=torch.int64)
    hidden = torch.tensor([[True, False, True, False, False, True]])
    before = model.clean_log_probs(noise.hide(x, hidden))[0]
    for site in range(6):
        moved = x.clone()
        moved[0, site] = 1
        after = model.clean_log_probs(noise.hide(moved, hidden))[0]
        for other in range(6):
            if other == site or not hidden[0, other]:
                continue
            changed = not torch.equal(after[other], before[other])
            assert changed == (not hidden[0, site])  # what is hidden cannot be seen


@pytest.mark.parametrize("reach", [0, 2])
def test_the_causal_twin_sees_what_comes_before_alone(reach):
    space = Space((3,) * 5)
    model, x = made(space, causal=True, reach=reach), torch.zeros(1, 5, dtype=torch.int64)
    before = model.site_log_conditionals(x)[0]
    for site in range(5):
        moved = x.clone()
        moved[0, site] = 2
        after = model.site_log_conditionals(moved)[0]
        changed = [not torch.allclose(after[other], before[other], atol=1e-14, rtol=0) for other in range(5)]
        assert changed == [other > site for other in range(5)]


@pytest.mark.parametrize("reach", [0, 2])
def test_the_twins_have_the_same_size_up_to_the_embeddings_of_unknown(reach):
    space = Space((4,) * 6)
    masked, causal = made(space, noise=absorbing(space), reach=reach), made(space, causal=True, reach=reach)
    count = [sum(p.numel() for p in model.parameters()) for model in (masked, causal)]
    assert abs(count[0] - count[1]) <= 2 * reach * 16  # of each distance, and one of the beginning


@pytest.mark.parametrize("space", [Space((3,) * 6), Space((2, 3, 4, 2, 3, 2))])
def test_a_site_starts_from_the_values_around_it_by_their_distance(space):
    x, size = space.uniform(4, torch.Generator().manual_seed(1)), torch.tensor(space.sizes)
    first = torch.zeros_like(size) if len(set(space.sizes)) == 1 else size.cumsum(0) - size
    for causal, offsets in ((False, (-2, -1, 1, 2)), (True, (-4, -3, -2, -1))):
        trunk = Transformer(space, space.sizes, causal=causal, reach=2, generator=torch.Generator(), **SMALL)
        wanted = trunk.values[x + first].clone()
        for offset, table in zip(offsets, trunk.around, strict=True):
            for site in range(6):
                if 0 <= site + offset < 6:
                    wanted[:, site] += table[x[:, site + offset] + first[site + offset]]
        torch.testing.assert_close(trunk.embed(x), wanted)
    with pytest.raises(InputError, match="at least 0"):
        made(space, reach=-1)


def test_the_causal_twin_draws_and_weighs_by_its_own_density():
    space, n = Space((2, 3, 2)), 4000
    model, g = made(space, causal=True), torch.Generator().manual_seed(0)
    p = model.log_density(space.enumerate()).exp()
    torch.testing.assert_close(p.sum(), torch.tensor(1.0).double())
    count = torch.bincount(space.index(model.sample(n, g)), minlength=12) / n
    assert ((count - p) / (p * (1 - p) / n).sqrt()).abs().max() < 4
    x, seen = torch.tensor([[0, 1, 1]]).expand(n, -1), torch.tensor([[False, True, True]]).expand(n, -1)
    states, log_weight = model.propose_given(x, seen, g)
    wanted = p[(space.enumerate()[:, 1:] == torch.tensor([1, 1])).all(-1)].sum()
    weight = log_weight.exp()
    assert abs(weight.mean() - wanted) < 4 * weight.std() / n**0.5
    assert torch.equal(states[:, 1:], x[:, 1:])


def test_any_head_and_noise():
    space = Space((3, 2, 3))
    x = space.enumerate()
    for head in ("log_ratio", "raw"):
        assert made(space, head=head).log_ratios(x).shape == (18, hamming(space).num_slots)
    leveled = made(space, head="denoising", noise=categorical(space, (0.9, 0.5)))
    objective = build("clean_value", space, noise=leveled.noise)
    assert objective.loss(leveled, objective.draw(x, torch.Generator())).shape == (18,)
    assert transformer(grid(space), generator=torch.Generator(), **SMALL).log_ratios(x).shape == (18, 5)
    with pytest.raises(InputError, match="one site"):
        transformer(moore(space), generator=torch.Generator(), **SMALL)
    with pytest.raises(InputError, match="no noise"):
        made(space, causal=True, noise=absorbing(space))
    with pytest.raises(InputError, match="heads divide"):
        transformer(hamming(space), width=6, heads=4, generator=torch.Generator())


@pytest.mark.parametrize("causal", [False, True])
def test_low_precision_is_for_learning_alone_and_close(monkeypatch, causal):
    monkeypatch.setattr(layers, "low_precision", lambda device: torch.bfloat16)
    space = Space((4,) * 6)
    full, mixed = (
        Transformer(space, space.sizes, 16, 2, 2, causal=causal, mixed=low, generator=torch.Generator().manual_seed(0))
        for low in (False, True)
    )
    x = space.uniform(5, torch.Generator().manual_seed(1))
    for network in (full, mixed):
        network.outputs(network.embed(x)).square().mean().backward()
    found, exact = (network.blocks[0].read.weight.grad for network in (mixed, full))
    assert found.dtype == torch.float32
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, rtol=0.1, atol=0.05 * exact.abs().max().item())
    with torch.no_grad():
        assert torch.equal(mixed(x), full(x))


def test_what_is_chosen_for_it():
    plain = choose({"model": "transformer"}, {}).recipe
    assert (plain.objective, plain.noise, plain.objective_options) == ("clean_value", "absorbing", {"power": 0.5})
    twin = choose({"model": "transformer", "objective": "maximum_likelihood"}, {}).recipe
    assert (twin.noise, twin.model_options) == (None, {"causal": True})
