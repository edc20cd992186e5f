"""Texts that hold amounts in an order: "20K - 40K", "< 1 year", "10+ years", "30 %"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from turnabout.schema.column_words import without_accents

LEAST = 3  # levels from which on an order matters; two are a Binary
NUMBER = re.compile(r"(?<![a-z\d.,])(\d+(?:[.,]\d+)*)\s*(k|m|tsd|mio)?(?![a-z])")
GROUPED = re.compile(r"\d{1,3}([.,]\d{3})+")
SIZES = {"k": 1e3, "tsd": 1e3, "m": 1e6, "mio": 1e6}
SIGNS = re.compile(r"[<>≤≥+%€$£]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BELOW = _words("< ≤ below under less upto unter bis weniger moins menos hasta meno")
ABOVE = _words("> ≥ + above over more least plus uber ab mehr mas oltre")
JOINING = _words("to and a at up or than most de als di et und between from zwischen")
UNITS = _words(
    "year years yr yrs month months day days week weeks jahr jahre monat monate tage ans mois anos meses anni mesi "
    "dm eur euro euros usd dollar dollars gbp inr rs chf"
)


def in_order(levels: Sequence[object]) -> tuple[str, ...] | None:
    """The levels from low to high where all of them are amounts or bands of one unit; None where that is in doubt."""
    if len(levels) < LEAST or not all(isinstance(level, str) for level in levels):
        return None
    texts = [str(level) for level in levels]
    plain = [without_accents(text).lower() for text in texts]
    digits = [m[1] for text in plain for m in NUMBER.finditer(text)]
    thousands = all(map(GROUPED.fullmatch, (d for d in digits if "." in d or "," in d))) and "%" not in "".join(plain)
    read = [_band(text, thousands) for text in plain]
    bands = [band for band in read if band is not None]
    if len(bands) < len(texts):
        return None
    units = {band.unit for band in bands} - {""}
    sized = any(m[2] for text in plain for m in NUMBER.finditer(text))
    if len(units) > 1 or (units and sized) or not any(band.is_amount for band in bands):
        return None
    order = sorted(range(len(texts)), key=lambda i: (bands[i].low, bands[i].high))
    pairs = pairwise([bands[i] for i in order])
    apart = all((a.low, a.high) != (b.low, b.high) and a.high <= b.low for a, b in pairs)
    return tuple(texts[i] for i in order) if apart else None


@dataclass(frozen=True)
class Band:
    """Lowest and highest amount of a text, its unit, and whether something says that it is an amount."""

    low: float
    high: float
    unit: str
    is_amount: bool


def _number(digits: str, thousands: bool) -> float | None:
    """1,000 and 1.000 are thousands where all of a column are grouped so; 0,5 and 0.5 are halves."""
    signs = re.sub(r"\d", "", digits)
    if len(set(signs)) == 2:  # 1,234.56
        whole, _, part = digits.rpartition(signs[-1])
        if not GROUPED.fullmatch(whole) or signs[-1] in whole:
            return None
        return float(f"{re.sub(r'[.,]', '', whole)}.{part}")
    if len(signs) > 1 or (signs and thousands):
        return float(re.sub(r"[.,]", "", digits)) if GROUPED.fullmatch(digits) else None
    return float(digits.replace(",", "."))


def _band(text: str, thousands: bool) -> Band | None:
    found = list(NUMBER.finditer(text))
    if not 1 <= len(found) <= 2 or re.search(r"[/:*]", text) or re.search(r"[-−–]", text[: found[0].start()]):
        return None
    values = [_number(m[1], thousands) for m in found]
    first, last = values[0], values[-1]
    if first is None or last is None:
        return None
    sizes = [SIZES.get(m[2] or "", 1.0) for m in found]
    if len(values) == 2 and sizes[0] == 1 and first < last:  # "20 - 40K"
        sizes[0] = sizes[1]
    low, high = first * sizes[0], last * sizes[-1]
    words = re.findall(r"[a-z]+|[<>≤≥+]", NUMBER.sub(" ", text.replace("up to", "upto").replace("at most", "upto")))
    unit = " ".join(word.rstrip("esn") for word in words if word not in BELOW | ABOVE | JOINING)
    is_amount = bool(SIGNS.search(text) or UNITS.intersection(words)) or any(m[2] for m in found)
    if len(values) == 2:
        return Band(low, high, unit, True) if low <= high and not {"<", ">"} & set(words) else None
    below, above = bool(BELOW.intersection(words)), bool(ABOVE.intersection(words))
    if below and above:
        return None
    return Band(-math.inf if below else low, math.inf if above else high, unit, is_amount or below or above)
