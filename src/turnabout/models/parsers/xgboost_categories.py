"""The categories that XGBoost 3.1 and later keeps with a model, and what they tell of the names in the training table.

XGBoost joins the UTF-8 bytes of all names, but counts and cuts them by characters: of 'Köln', 'München' it keeps the
lengths 4 and 7 and the first 11 of 13 bytes. Names in plain ASCII are whole; others can only be compared with names
that the user has.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MOST_TRIES = 20_000  # steps of the search for an order of names
Names = tuple[Hashable, ...]


@dataclass(frozen=True)
class Kept:
    """What a booster keeps of the categories of one column: the values, or the joined text and where it was cut."""

    values: Names = ()
    text: bytes = b""
    offsets: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.offsets else len(self.values)

    @property
    def names(self) -> Names | None:
        """The categories, or None where the kept text does not tell them."""
        if not self.offsets:
            return self.values
        return tuple(self.text[a:b].decode() for a, b in pairwise(self.offsets)) if self.text.isascii() else None

    def fits(self, names: Sequence[Hashable]) -> bool:
        """Whether a model trained on these categories, in this order, would have kept this."""
        if not self.offsets:
            return list(self.values) == list(names)
        texts = [name for name in names if isinstance(name, str)]
        if len(texts) != len(names):
            return False
        joined = "".join(texts).encode()
        by_characters, by_bytes = _cuts(map(len, texts)), _cuts(len(text.encode()) for text in texts)
        return self.offsets in (by_characters, by_bytes) and joined[: self.offsets[-1]] == self.text

    def order(self, pool: Iterable[Hashable]) -> Names | None:
        """The only order of names from a pool that fits; None where none or several do."""
        if (names := self.names) is not None:
            return names
        texts = [name for name in dict.fromkeys(pool) if isinstance(name, str)]
        lengths = [b - a for a, b in pairwise(self.offsets)]
        found: list[Names] = []
        open_: list[tuple[tuple[str, ...], int]] = [((), 0)]
        for _ in range(MOST_TRIES):
            if not open_ or len(found) > 1:
                break
            chosen, at = open_.pop()
            if len(chosen) == len(lengths):
                found.append(chosen)
                continue
            for text in texts:
                raw, told = text.encode(), self.text[at:]
                alike = raw[: len(told)] == told[: len(raw)]
                if alike and len(text) == lengths[len(chosen)] and text not in chosen:
                    open_.append(((*chosen, text), at + len(raw)))
        found = [names for names in found if self.fits(names)]
        return found[0] if len(found) == 1 and not open_ else None


def kept_categories(booster: Any) -> dict[int, Kept]:
    """What a booster keeps of the categories of each input; empty before XGBoost 3.1, or if it was trained on codes."""
    model = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
    return read_kept(model.get("gbtree", model).get("model", {}).get("cats"))


def read_kept(cats: Any) -> dict[int, Kept]:
    """The same from the "cats" of a saved model."""
    out: dict[int, Kept] = {}
    for i, encoding in enumerate(cats["enc"] if cats else []):
        values, offsets = encoding["values"], encoding.get("offsets")
        if values and offsets is None:
            out[i] = Kept(values=tuple(values))
        elif values:
            out[i] = Kept(text=bytes(v % 256 for v in values), offsets=tuple(offsets))
    return out


def _cuts(lengths: Iterable[int]) -> tuple[int, ...]:
    out = [0]
    for length in lengths:
        out.append(out[-1] + length)
    return tuple(out)
