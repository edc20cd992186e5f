"""Texts that hold amounts in an order: "20K - 40K", "< 1 year", "10+ years", "30 %"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from turnabout.schema.column_words import without_accents

LEAST = 3  # levels from which on an order matters; two are a Binary
NUMBER = re.compile(r"(?<![a-z\d.,])(\d+(?:[.,]\d+)*)\s*(k|m|tsd|mio)?(?![a-z])")
SIZES = {"k": 1e3, "tsd": 1e3, "m": 1e6, "mio": 1e6}
SIGNS = re.compile(r"[<>≤≥+%€$£]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BELOW = _words("< ≤ below under less upto unter bis weniger moins menos hasta meno")
ABOVE = _words("> ≥ + above over more least plus uber ab mehr mas oltre")
JOINING = _words("to and a at up or than most de als di y et und e between from zwischen")
UNITS = _words(
    "year years yr yrs month months day days week weeks jahr jahre monat monate tage ans mois anos meses anni mesi "
    "dm eur euro euros usd dollar dollars gbp inr rs chf"
)


def in_order(levels: Sequence[object]) -> tuple[str, ...] | None:
    """The levels from low to high where all of them are amounts or bands of one unit; None where they are not."""
    if len(levels) < LEAST or not all(isinstance(level, str) for level in levels):
        return None
    texts = [str(level) for level in levels]
    read = [_band(without_accents(text).lower()) for text in texts]
    bands = [band for band in read if band is not None]
    if len(bands) < len(texts):
        return None
    rests = {rest for _, _, rest, _ in bands} - {""}
    if len(rests) > 1 or not any(amount for *_, amount in bands):
        return None
    order = sorted(range(len(texts)), key=lambda i: bands[i][:2])
    ends = [bands[i][:2] for i in order]
    apart = all(a != b and a[1] <= b[0] for a, b in pairwise(ends))
    return tuple(texts[i] for i in order) if apart else None


def _number(digits: str) -> float:
    """1,000 and 1.000 are thousands, 0,5 and 0.5 halves."""
    grouped = re.fullmatch(r"\d{1,3}([.,]\d{3})+", digits)
    return float(re.sub(r"[.,]", "", digits) if grouped else digits.replace(",", ".", 1).replace(",", ""))


def _band(text: str) -> tuple[float, float, str, bool] | None:
    """Lowest, highest, the words that are left (a unit), and whether something says that it is an amount."""
    found = list(NUMBER.finditer(text))
    if not 1 <= len(found) <= 2:
        return None
    values, sizes = [_number(m[1]) for m in found], [SIZES.get(m[2] or "", 1.0) for m in found]
    if len(values) == 2 and sizes[0] == 1 and values[0] < values[1]:  # "20 - 40K"
        sizes[0] = sizes[1]
    values = [value * size for value, size in zip(values, sizes)]
    words = re.findall(r"[a-z]+|[<>≤≥+]", NUMBER.sub(" ", text.replace("up to", "upto").replace("at most", "upto")))
    left = " ".join(word.rstrip("esn") for word in words if word not in BELOW | ABOVE | JOINING)
    amount = bool(SIGNS.search(text) or UNITS.intersection(words)) or any(m[2] for m in found)
    if len(values) == 2:
        low, high = values
        return (low, high, left, True) if low <= high and not {"<", ">"} & set(words) else None
    below, above = bool(BELOW.intersection(words)), bool(ABOVE.intersection(words))
    if below and above:
        return None
    value = values[0]
    return -math.inf if below else value, math.inf if above else value, left, amount or below or above
