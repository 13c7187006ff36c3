"""AdamW's numbers are those of PyTorch's class, bit for bit; Muon turns matrices, and moves all else as Adam does."""

import subprocess
import sys
from copy import deepcopy

import pytest
import torch

from concrete_score import Space
from concrete_score.errors import InputError
from concrete_score.models import Table, transformer
from concrete_score.neighborhoods import hamming
from concrete_score.noise import absorbing
from concrete_score.randomness import generator
from concrete_score.training.optimizers import MATRIX_RATE, MOMENTUM, OPTIMIZERS, AdamW, orthogonalize
from concrete_score.training.recipe import TrainingSettings

SPACE = Space((3,) * 4)


def model():
    noise = absorbing(SPACE)
    options = {"width": 8, "depth": 2, "heads": 2, "dtype": torch.float64}
    return transformer(hamming(SPACE), noise=noise, generator=torch.Generator().manual_seed(0), **options)


def with_gradients(network, seed):
    random = torch.Generator().manual_seed(seed)
    for weight in network.parameters():
        weight.grad = torch.randn(weight.shape, generator=random, dtype=weight.dtype)
    return network


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_orthogonal_matrices_keep_the_singular_vectors(shape):
    given = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    turned = left.mT @ orthogonalize(given) @ right.mT
    size = turned.diagonal(dim1=-2, dim2=-1)
    assert size.min() > 0.5
    assert size.max() < 1.3
    torch.testing.assert_close(turned, torch.diag_embed(size), rtol=0, atol=1e-9)


def test_a_matrix_moves_by_its_orthogonal_momentum_and_all_else_as_by_adam():
    first = model()
    moved, by_adam = deepcopy(first), deepcopy(first)
    muon, adam = (OPTIMIZERS[name](net, 0.0) for name, net in (("muon", moved), ("adam", by_adam)))
    gradients = []
    for seed in (1, 2):
        gradients.append([weight.grad for weight in with_gradients(moved, seed).parameters()])
        with_gradients(by_adam, seed)
        muon.step(0.01)
        adam.step(0.01)
    block = dict(first.named_parameters())
    for (name, after), other, one, two in zip(moved.named_parameters(), by_adam.parameters(), *gradients, strict=True):
        if "blocks" not in name or after.ndim < 2:
            torch.testing.assert_close(after, other, rtol=1e-12, atol=1e-14)
            continue
        memory, change = torch.zeros_like(one), torch.zeros_like(one)
        parts = 3 if "read" in name else 1
        for gradient in (one, two):
            memory = MOMENTUM * memory + (1 - MOMENTUM) * gradient
            ahead = (1 - MOMENTUM) * gradient + MOMENTUM * memory
            turned = torch.cat([orthogonalize(part[None])[0] for part in ahead.chunk(parts)])
            change -= 0.01 * MATRIX_RATE * max(1.0, len(one) / parts / one.shape[1]) ** 0.5 * turned
        torch.testing.assert_close(after - block[name], change, rtol=1e-9, atol=1e-12)


def test_what_it_remembers_goes_on_bit_for_bit():
    network = model()
    optimizer = OPTIMIZERS["muon"](network, 0.1)
    with_gradients(network, 1)
    optimizer.step(0.01)
    copy = deepcopy(network)
    later = OPTIMIZERS["muon"](copy, 0.1)
    later.load(optimizer.state)
    for net, each in ((network, optimizer), (copy, later)):
        with_gradients(net, 2)
        each.step(0.01)
    for one, other in zip(network.parameters(), copy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_model_without_matrices_and_an_unknown_name_are_refused():
    with pytest.raises(InputError, match="use adam"):
        OPTIMIZERS["muon"](Table(Space((2, 2))), 0.0)
    with pytest.raises(InputError, match="optimizer"):
        TrainingSettings.of({"optimizer": "moun"})
    rates = [TrainingSettings(steps=100, lr=1.0, schedule="warmed").rate(step) for step in (0, 1, 3, 50, 100)]
    assert 0 < rates[0] < rates[1] < rates[2]
    assert rates[2] > rates[3] > rates[4] == 0


def weights():
    random = generator(0, "weights")
    return [torch.nn.Parameter(torch.randn(shape, generator=random)) for shape in ((4, 3), (4,), ())]


def give_gradients(parts, step):
    """The last one has none at every third step, nor at the first."""
    for i, part in enumerate(parts):
        missing = i == len(parts) - 1 and step % 3 == 0
        part.grad = None if missing else torch.randn(part.shape, generator=generator(i, "gradient", step))


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_the_steps_are_those_of_pytorchs_class(decay):
    ours, theirs = weights(), weights()
    optimizer, reference = AdamW(ours, decay), torch.optim.AdamW(theirs, weight_decay=decay, fused=True)
    for step in range(20):
        give_gradients(ours, step)
        give_gradients(theirs, step)
        reference.param_groups[0]["lr"] = 0.1 / (1 + step)
        reference.step()
        optimizer.step(0.1 / (1 + step))
        assert all(a.equal(b) for a, b in zip(ours, theirs, strict=True))
    stored = reference.state_dict()["state"]
    assert {i: set(values) for i, values in optimizer.state.items()} == {i: set(stored[i]) for i in stored}
    assert all(values[name].equal(stored[i][name]) for i, values in optimizer.state.items() for name in values)


def test_what_was_loaded_goes_on_as_if_never_stopped():
    parts = weights()
    optimizer = AdamW(parts, 0.1)
    for step in range(4):
        give_gradients(parts, step)
        optimizer.step(0.1)
    copies = [torch.nn.Parameter(part.detach().clone()) for part in parts]
    resumed = AdamW(copies, 0.1)
    resumed.load(optimizer.state)
    for step in range(4, 8):
        for kind, each in ((optimizer, parts), (resumed, copies)):
            give_gradients(each, step)
            kind.step(0.1)
    assert all(a.equal(b) for a, b in zip(parts, copies, strict=True))


def test_another_models_memory_is_refused():
    one, other = AdamW([torch.nn.Parameter(torch.ones(2))]), AdamW([torch.nn.Parameter(torch.ones(3))])
    one.weights[0].sum().backward()
    one.step(0.1)
    with pytest.raises(ValueError, match=r"another shape than \(3,\)"):
        other.load(one.state)


def test_a_fit_does_not_import_the_compiler():
    """It takes as long as PyTorch itself, and nothing of it is used."""
    program = (
        "import sys, torch, concrete_score as cs\n"
        "from concrete_score.training import TrainingSettings, fit\n"
        "model = cs.models.MADE(cs.Space.bits(3), generator=torch.Generator().manual_seed(0))\n"
        "fit(model, cs.objectives.build('maximum_likelihood', model.space), torch.ones(9, 3).byte(),"
        " TrainingSettings(steps=3, average=0.9, clip_norm=1.0))\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
