"""An attribution in the text that it explains, as HTML."""

from __future__ import annotations

import html

import numpy as np

from turnabout.core import Attribution, ConceptSpans
from turnabout.errors import TurnaboutError
from turnabout.render.attribution_drawing import layout_of, least
from turnabout.render.palette import AWAY, EDGE, TOWARDS
from turnabout.render.plan_words import number, signed

STRONG = 0.55  # opacity behind the most important word
FAINT = 0.05  # share of the largest value below which a word is not marked


def write_highlight(attribution: Attribution) -> str:
    """A text as a piece of HTML in which words that count are marked: dark on blue with a solid underline and a plus
    where they raise the score, on orange with a dashed underline and a minus where they lower it.

    The stronger the color, the larger the value, which a title on each word tells. Everything is escaped; there are no
    scripts, no classes and no other files.

    Parameters
    ----------
    attribution : of one text, with a layout of ConceptSpans.
    """
    needs = "a highlight needs an attribution of one text, with a layout of words."
    layout = layout_of(attribution, ConceptSpans, "a highlight", needs, "LimeText gives one.")
    names = attribution.names
    values = attribution.values.iloc[0].to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise TurnaboutError("the values of this text are not all numbers.", hint="look at attribution.values.")
    largest = float(np.abs(values).max()) if len(values) else 0.0
    bar = max(FAINT * largest, least(attribution))
    out, place = [], 0
    for start, end, concept in layout.spans:
        if not place <= start < end <= len(layout.text) or not 0 <= concept < len(values):
            raise TurnaboutError(
                f"the span {(start, end, concept)} does not lie in the text, or overlaps another.",
                hint="spans go from left to right, each with the place of its concept.",
            )
        out.append(html.escape(layout.text[place:start]))
        word, value = html.escape(layout.text[start:end]), float(values[concept])
        out.append(_marked(word, str(names[concept]), value, abs(value) / largest) if abs(value) > bar else word)
        place = end
    out.append(html.escape(layout.text[place:]))
    output = attribution.output
    score = html.escape(attribution.score) + ("" if output is None else f" {number(float(output.iloc[0]))}")
    caption = (
        f"{score}. Solid underline and +: the word raises it; dashed and "
        f"&minus;: it lowers it; words below {FAINT:.0%} of the largest weight are plain. Not what to write instead."
    )
    body = "".join(out)
    return (
        f'<figure style="margin:0"><p style="line-height:1.9;white-space:pre-wrap">{body}</p>'
        f'<figcaption style="color:#444;font-size:85%">{caption}</figcaption></figure>\n'
    )


def _marked(word: str, name: str, value: float, strength: float) -> str:
    """One word, tinted by its strength; its sign told by the underline and a small plus or minus."""
    up = value > 0
    color = tuple(int((TOWARDS if up else AWAY)[i : i + 2], 16) for i in (1, 3, 5))
    alpha = STRONG * (0.15 + 0.85 * strength) if up else 0.2 + 0.7 * strength
    style = (
        f"background:rgba({color[0]},{color[1]},{color[2]},{alpha:.2f});color:#111;padding:0 2px;"
        f"border-bottom:2px {'solid' if up else 'dashed'} {EDGE}"
    )
    told = html.escape(f"{name}: {signed(value)}", quote=True)
    return f'<mark style="{style}" title="{told}">{word}<sup>{"+" if up else "&minus;"}</sup></mark>'
