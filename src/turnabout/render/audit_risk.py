"""What an audit says of the risk, of landing points and of the price of landing higher, as parts of its page."""

from __future__ import annotations

import pandas as pd

from turnabout.render.page import Html, between, number, paragraph, percent, picture, table
from turnabout.render.risk import draw_landing_histogram, draw_landings, draw_risk_curve
from turnabout.typing import Json

KINDS = (
    ("compliant", "All compliant"),
    ("given", "As assumed"),
    ("defiant", "All defiant"),
)


def risk_blocks(document: Json) -> tuple[Html, ...]:
    """Wrong decisions before and after, what else changes, and the curve by compliance."""
    risk = document["risk"]
    level = f"{risk['confidence']:.0%}".replace("%", " %")
    rows = []
    for kind, name in KINDS:
        share = (
            f" (compliance {number(risk['compliance'])})" if kind == "given" and risk["compliance"] is not None else ""
        )
        figures = (risk["risk_before"], risk["risk_after"][kind], risk["excess"][kind])
        rows.append((name + share, *(between(figure) for figure in figures)))
    head = ("people", "wrong before", "wrong after", "change")
    blocks = [table(head, rows, f"Share of wrong decisions, with {level} intervals")]
    more = [
        ("Wrong no's mended, of all people", between(risk["mended"])),
        ("Wrong yes's made, of all people", between(risk["spoiled"])),
        ("Approved before", between(risk["approvals_before"])),
        ("Approved after", between(risk["approvals_after"])),
        ("Not repaid among the approved, before", between(risk["defaults_before"])),
        ("Not repaid among the approved, after", between(risk["defaults_after"])),
        ("Mean cost of moving", between(risk["cost"])),
    ]
    if risk["profit"] is not None:
        asked = document["asked"]
        more += [
            (
                f"Profit change per person (gain {number(asked['gain'])}, loss {number(asked['loss'])})",
                between(risk["profit"]),
            ),
            ("The same, if only profitable offers are made", between(risk["profit_if_chosen"])),
            ("Share of offers that are profitable", between(risk["chosen"])),
        ]
    blocks.append(
        table(("figure", "value"), more, f"What else changes at the assumed compliance, with {level} intervals")
    )
    blocks.append(_curve(risk))
    return tuple(blocks)


def _curve(risk: Json) -> Html:
    curve = pd.DataFrame(risk["curve"], columns=["compliance", "metric", "value", "low", "high"])
    before, even = risk["risk_before"]["value"], risk["break_even"]["value"]
    title = "Risk after recourse, by compliance"
    if even is not None:
        title = f"Break-even at a compliance of {between(risk['break_even'], 2)}"
    ax = draw_risk_curve(curve, before, even, title=title)
    ends = [risk["risk_after"][kind] for kind in ("defiant", "compliant")]
    alt = (
        f"Curve of the share of wrong decisions after recourse, from {between(ends[0])} where all are defiant to "
        f"{between(ends[1])} where all are compliant; before recourse it is {between(risk['risk_before'])}."
    )
    caption = (
        "The share of wrong decisions after recourse, by how much of the improvement is real, in the band of its "
        "interval. "
    )
    if before is None:
        caption += f"Only bounds are known; before recourse the share lies {between(risk['risk_before'])}."
    else:
        caption += "The dashed line is the share before; where they cross, recourse is neutral."
    return picture(ax, caption, alt, "curve")


def landing_blocks(document: Json) -> tuple[Html, ...]:
    """People before and after, and how sure they are to repay where they land."""
    risk, plane = document["risk"], document["plane"]
    if not plane["moved"]:
        return (paragraph("Nobody has an option, so that nobody lands anywhere."),)
    shown = len(plane["before"])
    some = (
        f"{shown} of the {plane['moved']} people with an option"
        if shown < plane["moved"]
        else f"all {shown} people with an option"
    )
    x, y = (axis["title"] for axis in plane["axes"])
    how = (
        "Too few ordered columns move to draw two of them, so that everyone is shown on the plane in which people "
        "differ most."
        if plane["principal"]
        else f"The two columns are those that options move most: {x} and {y}."
    )
    if not plane["principal"] and len(document["model"]["features"]) > 2:
        how += " Options may change others too, which are not seen."
    if any(axis["levels"] for axis in plane["axes"]):
        how += " People on one level are drawn a little apart."
    area = "" if plane["area"] is None else " The tinted area is where the model accepts."
    blocks = [
        picture(
            draw_landings(plane, title="Before and after recourse"),
            f"People before and after recourse, {some}. {how}{area}",
            f"Scatter of {shown} people with an arrow each from where they stand to where their option leads; axes: "
            f"{x}, {y}.",
            "landings",
        )
    ]
    if risk["histogram"] is not None:
        told = {"mean landing": risk["landing"]["value"], "risk neutral": risk["neutral_landing"]["value"]}
        marks = {name: value for name, value in told.items() if value is not None}
        low = sum(risk["histogram"][: len(risk["histogram"]) // 2])
        blocks.append(
            picture(
                draw_landing_histogram(
                    risk["histogram"], marks, title=f"{percent(low)} of those who move land below one half"
                ),
                "How likely people are to repay where they land, if their improvement is real. Whoever lands at one "
                "half is accepted with an even chance of failing. If all landed at the line of neutral risk, "
                "recourse would leave the share of wrong decisions as it is, at the assumed compliance.",
                "Histogram of landing probabilities: "
                + ", ".join(
                    f"{percent(share)} from {i / 10:.1f} to {(i + 1) / 10:.1f}"
                    for i, share in enumerate(risk["histogram"])
                    if share
                ),
                "histogram",
            )
        )
    least = risk["least_landing"]
    blocks.append(
        table(
            ("figure", "value"),
            [
                ("Mean P(repays) where people land", between(risk["landing"])),
                ("Mirror landing: one minus P(repays) before, on average", between(risk["mirror"])),
                ("Landing that would leave the risk as it is", between(risk["neutral_landing"])),
                (
                    "Least landing whose harm is not proven",
                    risk["least_landing_note"] if least is None else number(least),
                ),
            ],
            "Landing probabilities",
        )
    )
    return tuple(blocks)


def price_blocks(document: Json) -> tuple[Html, ...]:
    """What a landing costs people and saves in risk; nothing where none was asked for."""
    price, plain = document["price"], document["without_landing"]
    if price is None:
        return ()
    risk, wanted = document["risk"], document["asked"]["landing"]
    asked = (
        "as far above an even chance as each stood below it"
        if wanted == "mirror"
        else f"P(repays) of at least {wanted}"
    )
    ratio = "" if price["ratio"] is None else f", {number(price['ratio'], 2)} times as much"
    rows = [
        ("Wrong decisions after", between(plain["risk_after"]["given"]), between(risk["risk_after"]["given"])),
        ("Change of the risk", between(plain["excess"]["given"]), between(risk["excess"]["given"])),
        ("Verdict", plain["verdict"], risk["verdict"]),
        ("People with an option", number(plain["offered"]), number(risk["offered"])),
        ("Mean P(repays) where they land", between(plain["landing"]), between(risk["landing"])),
        ("Mean cost, of people with both options", between(price["plain"]), between(price["landed"])),
    ]
    return (
        paragraph(
            f"Options were asked to land at {asked}, as told by the model's margin set against people's outcomes. "
            f"For people who have an option either way the mean cost goes from {number(price['plain']['value'])} to "
            f"{number(price['landed']['value'])}{ratio}. Of those with an option, {percent(price['lost']['value'])} "
            "lose it. Where they then land is judged by other probabilities, fitted to the outcomes apart from the "
            "model, and may lie below what was asked."
        ),
        table(("figure", "bare acceptance", "landing as asked"), rows, "Recourse with and without the landing"),
    )
