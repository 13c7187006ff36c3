"""A toy kind of data: a hand of playing cards, two sites a card, its rank and its suit."""

from dataclasses import dataclass

import numpy as np
import torch

from concrete_score.codecs import Codec
from concrete_score.codecs.base import is_data, kept_rows, refuse_other_kind
from concrete_score.errors import InputError
from concrete_score.protocols import Encoded
from concrete_score.spaces import Space
from tests.toys.hands import RANKS, SUITS, Hands


@dataclass(frozen=True)
class CardsCodec(Codec):
    count: int
    kind = "cards"
    noun = "hands"

    @property
    def space(self):
        return Space((len(RANKS), len(SUITS)) * self.count)

    @property
    def names(self):
        return tuple(f"{part}{d}" for d in range(self.count) for part in ("rank", "suit"))

    @classmethod
    def infer(cls, data, options):
        return cls(len(data.cards[0]))

    @classmethod
    def accept(cls, data, where="data"):
        if is_data(data) and data.kind != cls.kind:
            refuse_other_kind(data, "hands of cards")
        return data if is_data(data) else Hands(tuple(map(tuple, data)), where)

    def encode(self, data, *, missing="refuse", unknown="refuse"):
        hands = self.accept(data)
        seen = np.array([[card is not None for card in hand for _ in range(2)] for hand in hands.cards])
        values = [[v for card in hand for v in ((0, 0) if card is None else self._pair(card))] for hand in hands.cards]
        blank = ~seen.all(1)
        if missing == "refuse" and blank.any():
            raise InputError("every card", f"{int(blank.sum())} hands with unseen cards", where=hands.where)
        kept = kept_rows(np.zeros(len(hands), bool), blank & (missing == "drop"), hands.where, self.noun)
        dropped = len(hands) - len(kept)
        states = torch.tensor(values, dtype=torch.uint8)[kept]
        return Encoded(states, torch.from_numpy(seen[kept]), torch.from_numpy(kept), 0, dropped)

    def decode(self, states, generator=None, conditions=(), first=0):
        pairs = states.reshape(len(states), -1, 2).tolist()
        return Hands(tuple(tuple(RANKS[r] + SUITS[s] for r, s in hand) for hand in pairs), "states")

    def fill(self, data, rows, states, draws, **choices):
        known = list(self.accept(data).cards)
        copies = []
        for copy in states:
            drawn = self.decode(copy).cards
            copies += [
                tuple(old or new for old, new in zip(known[at], hand, strict=True))
                for at, hand in zip(rows.kept.tolist(), drawn, strict=True)
            ]
        return Hands(tuple(copies), data.where)

    def natives(self, site):
        return self.labels(site)

    def labels(self, site):
        return tuple(SUITS if site % 2 else RANKS)

    def place(self, site, text):
        return self.labels(site).index(text) if text in self.labels(site) else None

    def schema(self):
        return {"cards": self.count}

    def schema_table(self):
        return "Cards:", ["cards"], [[self.count]]

    def to_json(self):
        return {"kind": self.kind, "cards": self.count}

    @classmethod
    def from_json(cls, value, where="codec"):
        return cls(value["cards"])

    @staticmethod
    def _pair(card):
        return RANKS.index(card[0]), SUITS.index(card[1])
