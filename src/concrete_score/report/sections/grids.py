"""Pictures of the data beside those drawn, and how the draws came about as the training went."""

from base64 import b64encode

from concrete_score.data.image_codec import ImageCodec
from concrete_score.data.pictures import grid_png
from concrete_score.report.grids import COUNT, kept_grids
from concrete_score.report.html import Html, tag
from concrete_score.report.parts import Section, folded, missing, paragraph, side_by_side, stacked
from concrete_score.report.subject import Subject

LARGEST = 2**21
"""Bytes of a grid that is shown: a stranger's folder may hold anything."""


def grids_section(subject: Subject) -> Section | None:
    """Held-out pictures beside draws of the kept weights, and the grids of earlier steps folded below."""
    codec = subject.run.codec
    if not isinstance(codec, ImageCodec):
        return None
    kept = [grid for grid in kept_grids(subject.run) if len(grid.png) <= LARGEST]
    title = "Pictures drawn"
    if not kept:
        return missing(title, "No grids were kept: this model has no quick way to draw.")
    data = grid_png(codec.decode(subject.judged[:COUNT].long().cpu()), top=codec.top)
    last = kept[-1]
    lead = paragraph(f"Left: {subject.judged_words.replace('rows', 'pictures')}. Right: draws of the model.")
    pair = side_by_side(_shown(data, "the data"), _shown(last.png, f"draws, step {last.step:,}"))
    earlier = [_shown(grid.png, f"draws, step {grid.step:,}") for grid in kept[:-1]]
    more = folded("As the training went, from the same noise", earlier) if earlier else None
    return Section(title, stacked(lead, pair, more))


def _shown(png: bytes, words: str) -> Html:
    picture = tag("img", src=f"data:image/png;base64,{b64encode(png).decode()}", alt=f"A grid of pictures: {words}")
    return tag("figure", picture, tag("figcaption", words))
