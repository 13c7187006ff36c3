"""A toy file format: hands of playing cards, one a line, ``KS 7H ?`` with ``?`` for a card not seen."""

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from concrete_score.data import Form, Format, Frame
from concrete_score.errors import InputError

RANKS, SUITS = "23456789TJQKA", "SHDC"


@dataclass(frozen=True)
class Hands:
    """Cards as text, None where not seen."""

    cards: tuple[tuple[str | None, ...], ...]
    where: str
    kind: ClassVar[str] = "cards"

    def __len__(self) -> int:
        return len(self.cards)

    def frame(self) -> Frame:
        names = [f"card{d}" for d in range(len(self.cards[0]))]
        return Frame(pl.DataFrame(list(self.cards), schema=names, orient="row"), Form("csv"), self.where)

    def to_json(self) -> dict[str, Any]:
        return {"hands": [list(hand) for hand in self.cards]}

    def native(self) -> list[tuple[str | None, ...]]:
        return list(self.cards)

    @classmethod
    def join(cls, parts) -> "Hands":
        parts = list(parts)
        return cls(tuple(hand for part in parts for hand in part.cards), parts[0].where)


def read(content: bytes, where: str) -> Hands:
    rows = [tuple(None if card == "?" else card for card in line.split()) for line in content.decode().splitlines()]
    for number, hand in enumerate(rows, 1):
        if len(hand) != len(rows[0]) or any(card and (card[0] not in RANKS or card[1:] not in SUITS) for card in hand):
            raise InputError(f"{len(rows[0])} cards such as KS", " ".join(map(str, hand)), f"{where}: line {number}")
    return Hands(tuple(rows), where)


def write(parts, file) -> None:
    for part in parts:
        for hand in part.cards:
            file.write((" ".join(card or "?" for card in hand) + "\n").encode())


hands = Format("hands", (".hands",), read, write, ("cards",))
