"""The U-Net: a score network for images that takes the noise level as input (paper, section 5.5 and C.4)."""

from collections.abc import Callable
from functools import cache
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from concrete_score import registry
from concrete_score.errors import InputError, Option, check_count
from concrete_score.models.heads import DenoisingHead, Head, WithEvidence
from concrete_score.models.layers import DEEPEST, Features, check_level, lowered, normal_parameter
from concrete_score.models.score import NoiseConditionalNetwork, ScoreNetwork
from concrete_score.models.unet_blocks import Attention, Block, ChannelNorm, Condition, Conv, Images, LevelFeatures
from concrete_score.protocols import Neighborhood, Noise, SiteNeighborhood
from concrete_score.shapes import States
from concrete_score.spaces import Space

CHUNK = 128
"""How many images are read at a time when no gradient is wanted: what lies between layers then stays in the cache."""


class UNet(nn.Module):
    """From images of bits or grey levels to ``out_features / D`` numbers a pixel; a `Trunk`.

    The first of ``depth`` halvings gathers squares of 2×2 pixels, each further one is a convolution, and every scale
    has its blocks again on the way up. At the coarsest scale all positions read each other, so every output sees every
    pixel; a learned map tells positions apart. Images that 2^depth does not divide are padded with 0, a value no pixel
    has.

    Args:
        space: one site a pixel, row by row, all of one size of at least 2.
        out_features: a multiple of the number of pixels; outputs are pixel by pixel.
        shape: height and width.
        width: channels of the finest scale; they double at each further one. A multiple of 4.
        depth: how often height and width are halved.
        blocks: residual blocks a scale, on the way down and again on the way up.
        num_levels: how many noise levels there are; None for none.
        channels_last: the layout of memory; contiguous is there to be compared.
        mixed: compute in bfloat16 where the device has it.
        compiled: through `torch.compile`; the first call then takes long.
        generator: the source of the first weights.
        dtype: of the parameters.

    Raises:
        InputError: a image smaller than ``2**depth``, another number of sites, or sites of different sizes.

    >>> trunk = UNet(Space.bits(28 * 28), 2 * 28 * 28, (28, 28), generator=torch.Generator().manual_seed(0))
    >>> trunk(torch.zeros(3, 784, dtype=torch.int64)).shape
    torch.Size([3, 1568])
    """

    def __init__(
        self,
        space: Space,
        out_features: int,
        shape: tuple[int, ...],
        width: int = 48,
        depth: int = 2,
        blocks: int = 1,
        num_levels: int | None = None,
        *,
        channels_last: bool = True,
        mixed: bool = False,
        compiled: bool = False,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        _check_image(space, out_features, shape, depth)
        if check_count(width, "width") % 4:
            raise InputError("a multiple of 4", str(width), where="width")
        self.space, self.shape, self.depth, self.num_levels = space, (shape[0], shape[1]), depth, num_levels
        self.channels_last, self.mixed, self.compiled = channels_last, mixed, compiled
        self.per_pixel, self.size = out_features // space.num_sites, space.sizes[0]
        self.patch = 2 if depth else 1
        build: dict[str, Any] = {"generator": generator, "dtype": dtype}
        widths = [width << i for i in range(max(1, depth))]
        features = width if num_levels is not None else 0
        self.levels = None if num_levels is None else LevelFeatures(num_levels, features, **build)
        self.read = Conv(self.patch**2 * (1 if self.size == 2 else 1 + self.size), width, 3, **build)
        self.position = normal_parameter((1, width, *self._fine), generator, dtype)
        self.down = nn.ModuleList(
            _blocks(w, features, check_count(blocks, "blocks", most=DEEPEST), build) for w in widths
        )
        self.halve = nn.ModuleList(Conv(w, 2 * w, 2, stride=2, **build) for w in widths[:-1])
        self.attention = Attention(widths[-1], **build)
        self.enlarge = nn.ModuleList(Conv(2 * w, 4 * w, 1, **build) for w in widths[:-1])
        self.join = nn.ModuleList(Conv(2 * w, w, 1, **build) for w in widths[:-1])
        self.up = nn.ModuleList(_blocks(w, features, blocks, build) for w in widths)
        self.norm = ChannelNorm(width, dtype, generator.device)
        self.write = Conv(width, self.patch**2 * self.per_pixel, 3, **build)

    @property
    def out_features(self) -> int:
        """Pixels times numbers a pixel."""
        return self.per_pixel * self.space.num_sites

    def forward(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., out_features)``; ``level`` is one for all, or broadcasts against the leading axes."""
        check_level(level, self.num_levels)
        batch = x.shape[:-1]
        rows = x.reshape(-1, self.space.num_sites)
        levels = None if level is None else torch.as_tensor(level, device=x.device)
        if levels is not None:
            levels = levels.reshape(1) if levels.numel() == 1 else levels.expand(batch).reshape(-1)
        return self._chunked(rows, levels).reshape(*batch, self.out_features)

    def _chunked(self, rows: Tensor, levels: Tensor | None) -> Tensor:
        if torch.is_grad_enabled() or len(rows) <= CHUNK:
            return self._outputs(rows, levels)
        parts = torch.split(rows, CHUNK)
        each = [levels] * len(parts) if levels is None or len(levels) == 1 else list(torch.split(levels, CHUNK))
        return torch.cat([self._outputs(part, own) for part, own in zip(parts, each, strict=True)])

    def _outputs(self, rows: Tensor, levels: Tensor | None) -> Tensor:
        with lowered(self.mixed, rows.device):
            condition = None if self.levels is None else self.levels(levels)
            run = _compiled() if self.compiled else _network
            image = run(self, self._features(rows), condition)
        return self._pixels(image).to(self.position.dtype)

    def _features(self, rows: Tensor) -> Images:
        """Grey values from -1 to 1, and one-hot beyond bits, gathered in patches ``(N, C, H', W')``."""
        (height, width), (tall, wide), dtype = self.shape, self._fine, self.position.dtype
        n = rows.shape[0]  # len() would fix the batch size of an exported program
        grey = (2.0 / (self.size - 1) * rows.to(dtype) - 1)[..., None]
        if self.size > 2:
            grey = torch.cat([grey, functional.one_hot(rows.long(), self.size).to(dtype)], -1)
        p, channels = self.patch, grey.shape[-1]
        image = grey.reshape(n, height, width, channels)
        image = functional.pad(image, (0, 0, 0, p * wide - width, 0, p * tall - height))
        patches = image.reshape(n, tall, p, wide, p, channels).permute(0, 1, 3, 2, 4, 5)
        image = patches.reshape(n, tall, wide, p * p * channels).permute(0, 3, 1, 2)
        return image if self.channels_last else image.contiguous()

    def _pixels(self, image: Images) -> Tensor:
        """Patches back to pixels, the padding cut off ``(N, D · numbers)``."""
        n, p, (tall, wide), (height, width) = image.shape[0], self.patch, self._fine, self.shape
        squares = image.permute(0, 2, 3, 1).reshape(n, tall, wide, p, p, self.per_pixel)
        whole = squares.permute(0, 1, 3, 2, 4, 5).reshape(n, p * tall, p * wide, self.per_pixel)
        return whole[:, :height, :width].reshape(n, self.out_features)

    @property
    def _fine(self) -> tuple[int, int]:
        """Height and width of the finest scale, padding included."""
        side, factor = 2**self.depth, 2**self.depth // self.patch
        return ceil(self.shape[0] / side) * factor, ceil(self.shape[1] / side) * factor


def unet(
    neighborhood: Neighborhood,
    head: str | None = None,
    noise: Noise | None = None,
    *,
    shape: tuple[int, ...],
    generator: torch.Generator,
    evidence: bool = True,
    **options: Any,
) -> ScoreNetwork | NoiseConditionalNetwork:
    """A U-Net on a neighborhood of images; noise-conditional if a noise is given (paper, C.4).

    Args:
        neighborhood: whose ratios it gives: `hamming` or `grid` on one site a pixel, row by row.
        head: a registered head; ``denoising`` with a noise and ``log_ratio`` without one by default.
        noise: makes one network of all its levels.
        shape: height and width of the images.
        generator: the source of the first weights.
        evidence: add the noise's own log-likelihood of each clean value to a denoising head's logits.
        options: of `UNet`: width, depth, blocks, channels_last, mixed, compiled, dtype.

    Raises:
        InputError: pieces that do not fit, or a image too small for the depth.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import binarized_gaussian
    >>> space = Space.bits(8 * 8)
    >>> net = unet(hamming(space), noise=binarized_gaussian(space), shape=(8, 8), generator=torch.Generator())
    >>> net.at(3).log_ratios(torch.zeros(2, 64, dtype=torch.int64)).shape
    torch.Size([2, 64])
    """
    name = head or ("log_ratio" if noise is None else "denoising")
    built: Head = registry.load("heads", name).build(neighborhood, noise)
    _check_slots(neighborhood, built)
    levels = None if noise is None else noise.num_levels
    net = UNet(neighborhood.space, built.out_features, shape, num_levels=levels, generator=generator, **options)
    trunk = WithEvidence(net, built) if evidence and isinstance(built, DenoisingHead) else net
    return ScoreNetwork(trunk, built) if noise is None else NoiseConditionalNetwork(trunk, built, noise)


def _network(net: UNet, image: Images, condition: Condition | None) -> Images:
    """From the finest scale down to the coarsest and back up."""
    x = net.read(image) + net.position
    skipped: list[Tensor] = []
    for scale, blocks in enumerate(net.down):
        for block in blocks:  # type: ignore[attr-defined]
            x = block(x, condition)
        if scale < len(net.halve):
            skipped.append(x)
            x = net.halve[scale](x)
    x = net.attention(x)
    for scale in reversed(range(len(net.up))):
        if scale < len(net.enlarge):
            x = net.join[scale](torch.cat([functional.pixel_shuffle(net.enlarge[scale](x), 2), skipped[scale]], 1))
        for block in net.up[scale]:  # type: ignore[attr-defined]
            x = block(x, condition)
    outputs: Tensor = net.write(functional.silu(net.norm(x)))
    return outputs


@cache
def _compiled() -> Callable[[UNet, Tensor, Tensor | None], Tensor]:
    """Compiled once as a function of the network, so that a copy of a network runs its own weights."""
    found: Callable[[UNet, Tensor, Tensor | None], Tensor] = torch.compile(_network)
    return found


def _blocks(channels: int, features: int, count: int, build: dict[str, Any]) -> nn.ModuleList:
    return nn.ModuleList(Block(channels, features, **build) for _ in range(count))


def _check_image(space: Space, out_features: int, shape: tuple[int, ...], depth: int) -> None:
    check_count(depth, "depth", least=0)
    if len(shape) != 2:
        raise InputError("height and width", f"{len(shape)} numbers", where="shape")
    height, width = check_count(shape[0], "shape[0]"), check_count(shape[1], "shape[1]")
    if height * width != space.num_sites:
        raise InputError(
            f"a shape of {space.num_sites} pixels, one a site",
            f"{height}x{width} = {height * width}",
            where="shape",
            fix="give height and width of the images the space was made for",
        )
    if min(height, width) < 2**depth:
        most = min(height, width).bit_length() - 1
        raise InputError(
            f"images of at least {2**depth}x{2**depth} for depth {depth}",
            f"{height}x{width}",
            where="shape",
            fix=(f"use a depth of at most {most}: ", Option("set", {"model.depth": most})),
        )
    if len(set(space.sizes)) > 1 or space.sizes[0] < 2:
        raise InputError("pixels of one size, of at least 2 grey levels", f"sizes {sorted(set(space.sizes))}", "space")
    if out_features % space.num_sites or not out_features:
        raise InputError("as many outputs at every pixel", f"{out_features} in all", where="out_features")


def _check_slots(neighborhood: Neighborhood, head: Head) -> None:
    """Outputs are pixel by pixel, so the slots must be too."""
    sites, slots = neighborhood.space.num_sites, neighborhood.num_slots
    even = isinstance(neighborhood, SiteNeighborhood) and slots > 0 and slots % sites == 0
    if even:
        slot = torch.arange(slots)
        first = torch.zeros(slots, sites, dtype=torch.int64)
        even = bool((neighborhood.edit(first, slot)[0] == slot // (slots // sites)).all())  # type: ignore[attr-defined]
    if not even:
        raise InputError(
            "a neighborhood with the same moves at every pixel, each changing one",
            type(neighborhood).__name__,
            where="neighborhood",
            fix=f"use `hamming` or `grid` with {type(head).__name__}",
        )
