"""A page of HTML that needs nothing but itself: headings, paragraphs, tables and pictures within one text."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType

from turnabout.documents import Document
from turnabout.errors import TurnaboutError
from turnabout.render.palette import need_matplotlib
from turnabout.typing import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Html = NewType("Html", str)
"""Text that is HTML already. Only the functions of this module make it, and each escapes what it is given."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--soft:#5a5a5a;--paper:#fff;--line:#d5d5d5;--tint:#f3f5f9;--mark:#1f3b73}
@media (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#b0b0b0;--paper:#16181c;--line:#3a3e46;--tint:#20242b;
--mark:#a9c1ff}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem 1rem 3rem;max-width:50rem;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.4rem 0 .8rem}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-top:1px solid var(--line);padding-top:1.1rem}
h3{font-size:1.05rem;margin:1.6rem 0 .4rem}
p,ul,ol{margin:.6rem 0}
ul,ol{padding-left:1.5rem}
li{margin:.25rem 0}
.lead{font-size:1.15rem;line-height:1.45;border-left:.35rem solid var(--mark);background:var(--tint);padding:.8rem 1rem}
.note{color:var(--soft);font-size:.92rem}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.95rem}
a{color:var(--mark)}
.wide{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-size:.9rem;min-width:60%}
caption{text-align:left;color:var(--soft);padding:.2rem 0 .4rem}
th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:normal}
thead th{border-bottom:2px solid var(--line);vertical-align:bottom}
tbody th{font-weight:600;min-width:5.5rem}
td{font-variant-numeric:tabular-nums}
figure{margin:1rem 0 1.4rem}
figure svg{display:block;width:100%;max-width:40rem;height:auto;background:#fff;border:1px solid var(--line);
border-radius:.3rem;padding:.4rem}
figcaption{color:var(--soft);font-size:.92rem;margin-top:.4rem;max-width:40rem}
pre{white-space:pre-wrap;background:var(--tint);padding:.7rem .9rem;font-size:.88rem;border-radius:.3rem}
@media print{:root{--ink:#000;--soft:#333;--paper:#fff;--line:#bbb;--tint:#fff;--mark:#000}
body{max-width:none;padding:0;font-size:10.5pt}nav{display:none}.wide{overflow:visible}
figure,tr,pre{break-inside:avoid}h2,h3,caption,thead{break-after:avoid}figure svg{max-width:13cm;border:0}}
"""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; sections without blocks are left out of the page."""

    heading: str
    blocks: tuple[Html, ...]


def read_document(document: Json | Document, mark: str, version: int, what: str) -> Json:
    """A document as plain values, as its JSON has it; refuses one without this mark and version.

    Parameters
    ----------
    what : the document with its article, for errors.
    """
    if isinstance(document, Document):
        document = json.loads(document.to_json())
    if not isinstance(document, dict) or document.get(mark) != version:
        raise TurnaboutError(
            f"this is not {what} of turnabout, or one of another version.",
            hint=f"this release draws {mark} version {version}, as written by `{mark.replace('_', ' ')}`.",
        )
    return document


def write_page(title: str, lead: Sequence[Html], sections: Sequence[Section], lang: str = "en") -> str:
    """The whole page. It loads nothing, runs nothing, prints well, and follows the reader's light or dark scheme.

    Parameters
    ----------
    title : of the page, and its first heading.
    lead : what the reader sees before anything else.
    sections : in order, with links to each of them on top.
    lang : the language of the text.
    """
    shown = [section for section in sections if section.blocks]
    links = [f'<li><a href="#part-{i}">{html.escape(part.heading)}</a></li>' for i, part in enumerate(shown, start=1)]
    nav = f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>\n' if links else ""
    parts = [
        f'<section aria-labelledby="part-{i}">\n<h2 id="part-{i}">{html.escape(part.heading)}</h2>\n'
        + "\n".join(part.blocks)
        + "\n</section>\n"
        for i, part in enumerate(shown, start=1)
    ]
    name = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="{html.escape(lang)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n"
        + "\n".join(lead)
        + f"\n{nav}{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def paragraph(text: str, kind: str = "") -> Html:
    """A paragraph; kind: "lead" for the finding, "note" for small print."""
    mark = f' class="{html.escape(kind)}"' if kind else ""
    return Html(f"<p{mark}>{html.escape(text)}</p>")


def heading(text: str) -> Html:
    """A heading within a section."""
    return Html(f"<h3>{html.escape(text)}</h3>")


def bullets(items: Iterable[str], numbered: bool = False) -> Html:
    """A list of sentences."""
    kind = "ol" if numbered else "ul"
    return Html(f"<{kind}>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + f"</{kind}>")


def literal(text: str) -> Html:
    """Text as it stands, such as a command."""
    return Html(f"<pre>{html.escape(text)}</pre>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Html:
    """A table whose first column names its rows; where it is too wide it scrolls within its own frame."""
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = ""
    for first, *cells in rows:
        body += f'<tr><th scope="row">{html.escape(first)}</th>'
        body += "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>\n"
    told = html.escape(caption)
    return Html(
        f'<div class="wide" role="region" tabindex="0" aria-label="{told}"><table><caption>{told}</caption>'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def picture(ax: Axes, caption: str, alt: str, name: str) -> Html:
    """A picture of matplotlib as SVG within the page, with what it shows in words for those who do not see it.

    Parameters
    ----------
    ax : drawn already; its whole figure is taken, and closed.
    name : unlike that of every other picture of the page; letters, digits and hyphens.
    """
    svg = svg_of(ax.figure, name)  # type: ignore[arg-type]
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)
    return Html(f"<figure>\n{svg}<figcaption>{html.escape(caption)}</figcaption>\n</figure>")


def svg_of(figure: Figure, name: str) -> str:
    """A figure as an SVG element: letters as shapes, so that it looks the same everywhere; its names begin by `name`.

    Nothing in it depends on the time or on chance.
    """
    need_matplotlib()
    import matplotlib
    import matplotlib.pyplot as plt

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    plt.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)  # matplotlib repeats its labels there
    svg = re.sub(r'\b(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"\d+\.\d{3,}", _rounded, path[0]), svg)
    svg = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", svg))
    tag, rest = svg.split(">", 1)
    return re.sub(r' (?:width|height)="[^"]*"', "", tag) + ">" + rest  # as wide as the page, by its viewBox


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}"


# -- numbers in words ---------------------------------------------------------------------------------------------

HARD = "\N{NO-BREAK SPACE}"  # an interval is not torn apart


def number(value: float | int | None, digits: int = 3) -> str:
    """A number for reading: 0.283, 1,204, 12.500, 34; "unknown" for None."""
    if value is None:
        return "unknown"
    return f"{int(value):,}".replace("-", "−") if float(value).is_integer() else decimal(value, digits)


def decimal(value: float, digits: int = 3) -> str:
    """A number with so many decimals, fewer where it is large."""
    size = abs(value)
    if 0 < size < 0.5 * 10**-digits:
        return f"{value:.1e}".replace("-", "−")
    return f"{value:,.{digits if size < 100 else 1 if size < 10000 else 0}f}".replace("-", "−")


def between(figure: Json | None, digits: int = 3) -> str:
    """A figure with its interval, from {"value", "low", "high"}: "0.283 (0.250 to 0.317)".

    Without a value, what is known of it by its ends.
    """
    if figure is None:
        return "not asked"
    value, low, high = (figure.get(part) for part in ("value", "low", "high"))
    if value is None and (low is None or high is None):
        return "unknown"
    ends = HARD.join(
        ("unknown" if low is None else decimal(low, digits), "to", "unknown" if high is None else decimal(high, digits))
    )
    if value is None:
        return f"within {ends}"
    return f"{decimal(value, digits)} ({ends if low is not None or high is not None else f'no{HARD}interval'})"


def percent(share: float | None) -> str:
    """A share in percent; never 0 % or 100 % of what is not none or all."""
    if share is None:
        return "unknown"
    said = f"{100 * share:.1f}"
    if said == "0.0" and share > 0:
        return f"under{HARD}0.1{HARD}%"
    if said == "100.0" and share < 1:
        return f"over{HARD}99.9{HARD}%"
    return f"{said.removesuffix('.0')}{HARD}%"


def sentence(text: str) -> str:
    """A remark as a sentence: with a capital letter and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def signed(value: float) -> str:
    """A change: +0.031, −0.004."""
    return f"{value:+.3f}".replace("-", "−")


def rate(share: Json) -> str:
    """A share with its interval and how many it rests on, from {"value", "low", "high", "n"}."""
    if share["value"] is None:
        return "unknown (nobody to count)"
    ends = HARD.join((percent(share["low"]), "to", percent(share["high"]) + ";", "n", "=", number(share["n"])))
    return f"{percent(share['value'])} ({ends})"
