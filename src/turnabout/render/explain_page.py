"""The page of an explanation: why people were refused, and what of it they can change, drawn from its JSON alone."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from turnabout.core import Attribution
from turnabout.documents import Document, reads
from turnabout.errors import TurnaboutError
from turnabout.render.attribution_drawing import draw_waterfall
from turnabout.render.page import (
    Html,
    Section,
    bullets,
    heading,
    literal,
    number,
    paragraph,
    percent,
    picture,
    read_document,
    sentence,
    table,
    write_page,
)
from turnabout.render.palette import axes_or_new
from turnabout.render.risk import NARROW, SIZE, draw_groups
from turnabout.typing import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VERSION = 1
NO_ADVICE = (
    "An attribution is not a distance to the boundary, and it is not advice: it says how the score answers to a column "
    "around a person, not what they should change nor how far they would have to go."
)
FEATURES = 15  # shown in the overview
BARS = 8  # of one person
NUMBERED = re.compile(r"^\s*\d+\. ")


@reads("this explanation", TurnaboutError, "pass what `turnabout explain` wrote, as it was written.")
def explain_page(document: Json | Document) -> str:
    """The page as one text of HTML, which needs no other file.

    Parameters
    ----------
    document : as `turnabout explain` writes it, or the report that `turnabout.explain.report` returns.
        Every number of the page is in it, or a mean of numbers in it.
    """
    document = read_document(document, "turnabout_explain", VERSION, "an explanation")
    attribution = Attribution.from_dict(document["attribution"])
    refused = [line["person"] for line in document["reasons"]["people"]]
    n = len(attribution)
    if refused:
        finding = f"{number(len(refused))} of {number(n)} people are refused. {_main_reason(document)}"
    else:
        finding = f"Nobody of {number(n)} people is refused, so that there are no reasons to give."
    sections = [
        Section("What these numbers are", _meaning(attribution)),
        Section("What counts for the refused", _overview(attribution, refused, document)),
        Section("What a person can change alone", _responsive(document)),
        Section("Refused people, one by one", _people(attribution, document)),
        Section("How to get the same numbers", _reproduce(attribution, document)),
    ]
    return write_page("Why people were refused", [paragraph(finding, "lead"), paragraph(NO_ADVICE)], sections)


def _main_reason(document: Json) -> str:
    counts: dict[str, int] = defaultdict(int)
    for reason in document["reasons"]["reasons"]:
        counts[reason["feature"]] += reason["rank"] == 1
    if not counts:
        return "No column stands out as a reason."
    feature = max(counts, key=lambda name: counts[name])
    stuck = sum(bool(line["without_recourse"]) for line in document["reasons"]["people"])
    return (
        f"The first reason is most often {_titles(document)[feature]}, for {number(counts[feature])} of them; "
        f"{number(stuck)} have only reasons on which nothing they can do was shown to help."
    )


def _meaning(attribution: Attribution) -> tuple[Html, ...]:
    if attribution.kind == "contribution":
        unit = (
            f"Each number says what the {attribution.score} of a person owes to a column being as it is, rather than "
            "as in the background or at a baseline; the method named at the end says how that is counted."
        )
    else:
        unit = (
            f"Each number says how the {attribution.score} answers to a column around a person, as the method named at "
            "the end counts it."
        )
    sure = "The values are exact up to rounding." if attribution.exact else "The values are estimates."
    if attribution.errors is not None:
        sure += " Whiskers in the pictures are one standard error."
    points = [
        unit,
        sure,
        "Attributions describe the model, not the world: that a column counts does not make it a cause.",
        "Methods of explaining disagree. Another one may put other columns first.",
        "Responsiveness is the share of the changes of one column within a person's reach that turn the decision. It "
        "is the honest reason code: 0 % means that changing this column alone does nothing.",
    ]
    return (bullets(sentence(point) for point in (*points, *attribution.notes)),)


def _overview(attribution: Attribution, refused: list, document: Json) -> tuple[Html, ...]:
    if not refused:
        return ()
    titles, frame = _titles(document), attribution.values.loc[refused]
    mean = frame.mean()
    size = frame.abs().mean().sort_values(ascending=False, kind="stable")
    shown = list(size.index[:FEATURES])
    bars = pd.DataFrame(
        {
            "group": [titles.get(name, name) for name in shown],
            "value": mean[shown].to_numpy(),
            "low": np.nan,
            "high": np.nan,
        }
    )
    left = len(size) - len(shown)
    more = f"; {left} columns of smaller size are left out" if left else ""
    kind = attribution.kind
    ax = draw_groups(bars, title=f"Mean {kind} among the refused", xlabel=f"mean {kind}, {attribution.score}")
    named: dict[str, int] = defaultdict(int)
    for reason in document["reasons"]["reasons"]:
        named[reason["feature"]] += 1
    rows = [
        (
            titles.get(name, name),
            number(float(mean[name])),
            number(float(size[name])),
            number(named.get(name, 0)) if name in titles else "told by feature",
        )
        for name in shown
    ]
    return (
        picture(
            ax,
            f"Mean of the {kind}s over {number(len(refused))} refused people, by size{more}."
            + (" Left of 0 a column lowers the score." if kind == "contribution" else ""),
            "; ".join(f"{row[0]}: {row[1]}" for row in rows),
            "overview",
        ),
        table(
            ("column", f"mean {kind}", "mean size", "among the reasons of so many"),
            rows,
            f"{kind.capitalize()}s over {number(len(refused))} refused people; reasons are ordered by "
            f"{document['reasons']['ordered_by'].removesuffix(f' ({attribution.made_by})')}",
        ),
    )


def _responsive(document: Json) -> tuple[Html, ...]:
    scores = pd.DataFrame(document["responsiveness"]["scores"])
    if not len(scores):
        return ()
    titles, lines, bars = _titles(document), [], []
    for name, part in ((str(key), rows) for key, rows in scores.groupby("feature", sort=False)):
        able = part[part["actionable"].astype(bool)]
        shares = pd.to_numeric(able["share"]).dropna()
        mean = float(shares.mean()) if len(shares) else None
        turned = int((shares > 0).sum())
        exact = "all" if bool(able["exact"].all()) else "a selection, for some"
        lines.append((titles[name], len(able), turned, mean, exact if len(able) else "none"))
        bars.append((titles[name], mean))
    lines.sort(key=lambda line: -1.0 if line[3] is None else line[3], reverse=True)
    movable = sorted(((n, m) for n, m in bars if m is not None), key=lambda bar: -bar[1])[:FEATURES]
    blocks: list[Html] = []
    if movable:
        frame = pd.DataFrame(movable, columns=["group", "value"]).assign(low=np.nan, high=np.nan)
        title = "Own changes of a column that turn the decision"
        blocks.append(
            picture(
                draw_groups(frame, title=title, xlabel="mean share, over refused people who can change it"),
                "Responsiveness by column: of the values within a refused person's reach, all else unchanged, the "
                "share that is accepted; mean over people who can change the column at all. It takes no account of "
                "what a change costs.",
                "; ".join(f"{name}: {percent(mean)}" for name, mean in movable),
                "responsiveness",
            )
        )
    rows = [(name, number(able), number(turned), percent(mean), exact) for name, able, turned, mean, exact in lines]
    head = (
        "column",
        "refused people who can change it",
        "for whom it alone can suffice",
        "mean share",
        "values counted",
    )
    blocks.append(
        table(head, rows, f"Responsiveness over {number(document['responsiveness']['refused'])} refused people")
    )
    return tuple(blocks)


def _people(attribution: Attribution, document: Json) -> tuple[Html, ...]:
    blocks: list[Html] = []
    titles = _titles(document)
    if len(set(titles.values())) == len(titles):
        attribution = replace(
            attribution, values=attribution.values.rename(columns=titles), errors=_renamed(attribution, titles)
        )
    for place, letter in enumerate(document["letters"]):
        person, (first, *rest) = letter["person"], letter["text"].split("\n")
        numbered = [NUMBERED.sub("", line) for line in rest if NUMBERED.match(line)]
        ax = _waterfall(attribution, person)
        values = attribution.of(person)["value"].head(BARS)
        blocks += [
            heading(f"Person {person}" if not isinstance(person, str) else person),
            picture(
                ax,
                f"{_caption(attribution)}, the largest first.",
                "; ".join(f"{name}: {number(float(value))}" for name, value in values.items()),
                f"person-{place}",
            ),
            paragraph(first.replace(f" ({attribution.made_by})", "")),
            bullets(numbered, numbered=True),
            paragraph(" ".join(line.strip() for line in rest if not NUMBERED.match(line))),
        ]
    left = len(document["reasons"]["people"]) - len(document["letters"])
    if left > 0:
        blocks.append(paragraph(f"{number(left)} more refused people are in the JSON beside this page.", "note"))
    return tuple(blocks)


def _caption(attribution: Attribution) -> str:
    if attribution.kind == "contribution":
        return f"What makes up the {attribution.score} of this person"
    return f"How the {attribution.score} of this person answers to each column"


def _waterfall(attribution: Attribution, person: Any) -> Axes:
    """The person's waterfall, narrow enough to be read on a phone."""
    ax = axes_or_new(None, (SIZE[0], 1.4 + 0.3 * (BARS + 3)))
    ax = draw_waterfall(attribution, person, ax, most=BARS)
    low, high = ax.get_xlim()
    ax.set_xlim(low - 0.15 * (high - low), high)  # numbers stand left of bars that lower the score
    title = " ".join(ax.get_title(loc="left").split())
    ax.set_title(textwrap.fill(title, NARROW), loc="left", fontweight="bold", fontsize="medium", pad=10)
    ax.set_xlabel(textwrap.fill(ax.get_xlabel(), NARROW))
    return ax


def _renamed(attribution: Attribution, titles: dict[str, str]) -> pd.DataFrame | None:
    return None if attribution.errors is None else attribution.errors.rename(columns=titles)


def _reproduce(attribution: Attribution, document: Json) -> tuple[Html, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    seed = "no random draws in the attributions" if attribution.seed is None else f"seed {attribution.seed}"
    points = [
        f"Model: {document['model']['title']}.",
        f"Attributions: {attribution.made_by}, of the {attribution.score}; {number(attribution.asked)} rows were put "
        f"to the model; {seed}.",
        f"Plans: {document['answer']['made_by']}, seed {document['asked']['seed']}.",
        *map(sentence, dict.fromkeys((*document["notes"], *_own_notes(attribution, document), *document["warnings"]))),
        f"Versions: {versions}.",
        "This page was drawn from the JSON beside it.",
    ]
    return literal(document["command"]), bullets(points)


def _own_notes(attribution: Attribution, document: Json) -> list[str]:
    """Notes of the reasons that are not those of the attribution, which stand above."""
    return [note for note in document["reasons"]["notes"] if note not in attribution.notes]


def _titles(document: Json) -> dict[str, str]:
    return {feature["name"]: feature["title"] for feature in document["model"]["features"]}
