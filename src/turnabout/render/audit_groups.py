"""What an audit says of groups, of who has recourse, and of whether options last, as parts of its page."""

from __future__ import annotations

import pandas as pd

from turnabout.render.page import (
    HARD,
    Html,
    between,
    decimal,
    heading,
    number,
    paragraph,
    percent,
    picture,
    rate,
    table,
)
from turnabout.render.risk import draw_groups
from turnabout.typing import Json

MEASURES = {
    "availability": "have an option",
    "cost": "mean cost of the option",
    "changes": "columns to change",
    "steps": "steps of the plan",
    "duration": "duration of the plan",
    "robustness": "option survives execution noise",
}


def group_blocks(document: Json) -> tuple[Html, ...]:
    """The risk within the groups of each attribute."""
    blocks: list[Html] = []
    for place, part in enumerate(document["groups"]):
        frame = pd.DataFrame([{"group": group["group"], **group["excess"]} for group in part["groups"]])
        name = part["attribute"]
        blocks += [
            heading(name),
            picture(
                draw_groups(
                    frame,
                    title=f"Change of wrong decisions, by {name}",
                    xlabel="change in the share of wrong decisions",
                ),
                f"Change in the share of wrong decisions within each group of {name}, with intervals; right of 0 "
                "there are more.",
                "; ".join(f"{group['group']}: {between(group['excess'])}" for group in part["groups"]),
                f"group-{place}",
            ),
            table(
                (
                    "group",
                    "people",
                    "change of the risk",
                    "its part in the whole",
                    "mean cost of moving",
                    "refused without an option",
                ),
                [
                    (
                        group["group"],
                        number(group["n"]),
                        between(group["excess"]),
                        "unknown" if group["part"] is None else number(group["part"], 4),
                        between(group["cost"]),
                        rate(group["without"]),
                    )
                    for group in part["groups"]
                ],
                f"Risk and burden by {name}",
            ),
        ]
    if not blocks:
        blocks = [
            paragraph("No groups were named; --groups COLUMN compares them, also by columns the model does not know.")
        ]
    return tuple(blocks)


def fairness_blocks(document: Json) -> tuple[Html, ...]:
    """Availability, cost, effort and robustness by group, and the worst-off subgroup."""
    blocks: list[Html] = []
    if (fair := document["fairness"]) is not None:
        measures = [name for name in MEASURES if name in fair["everyone"]["measures"]]
        rows = []
        for group in (fair["everyone"], *fair["groups"]):
            cells = []
            for name in measures:
                star = " *" if group["against"].get(name, {}).get("survives") else ""
                cells.append(between(group["measures"][name]) + star)
            rows.append((_group_name(group), number(group["refused"]), *cells, _burden(group["burden"])))
        head = ("group", "refused", *(MEASURES[name] for name in measures), "cost at which half have an option")
        blocks.append(table(head, rows, "Recourse of the refused, by group, with intervals"))
        stars = sum(bool(gap["survives"]) for group in fair["groups"] for gap in group["against"].values())
        level = f"{1 - fair['confidence']:.4g}"
        who = "* differs" if stars else "No group differs"
        tested = f"with {fair['tests']} differences tested together (level {level})"
        said = f"{who} from everyone else by more than chance, {tested}."
        blocks.append(
            paragraph(
                said
                + " Costs, changes and robustness are of those who have an option; a group in which only easy cases "
                "have one looks cheap. The last column counts everyone refused.",
                "note",
            )
        )
    blocks += [
        heading("The worst-off subgroup that a search could make sure of"),
        paragraph(_worst(document["subgroup"])),
    ]
    return tuple(blocks)


def _worst(found: Json) -> str:
    what = MEASURES.get(found["what"], found["what"])
    if not found["conditions"]:
        return (
            f"There is no subgroup of at least {number(found['least'])} people, of the {number(found['counted'])} who "
            "count, to look at."
        )
    signs = {"is": "=", "at most": "≤", "above": ">"}
    name = " and ".join(
        f"{c['column']} is missing" if c["kind"] == "missing" else f"{c['column']} {signs[c['kind']]} {c['value']}"
        for c in found["conditions"]
    )
    verdict = {True: "worse off than everyone else", False: "not shown to be worse off", None: "not compared"}
    return (
        f"On one half of the people, {number(found['looked'])} subgroups were looked at for the smallest share who "
        f"{what}. It was found for {name} ({number(found['people'])} of {number(found['counted'])} people). On the "
        f"other half the share is {between(found['value'])}, by {between(found['difference'])} more than everyone "
        f"else's: {verdict[found['is_worse']]}."
    )


def lasting_blocks(document: Json) -> tuple[Html, ...]:
    """Which share of options survives execution noise and retrained models."""
    lasting, retrained = document["lasting"], document["retrained"]
    if not lasting["options"]:
        return (paragraph("Nobody has an option that could be lost."),)
    blocks: list[Html] = []
    if lasting["threats"]:
        again = None if retrained is None else retrained["retrain"]
        rows = []
        for threat in lasting["threats"]:
            said = f"the model trained again, {again}" if threat["threat"] == again else threat["threat"]
            rows.append((said, rate(threat["kept"])))
        blocks.append(
            table(("threat", "options that are still accepted"), rows, "Each threat on its own, with intervals")
        )
    else:
        blocks.append(paragraph("No threat was tried: --noise and --retrain try some."))
    if retrained is not None:
        blocks.append(
            paragraph(
                f"{retrained['models']} models were trained again. Over models, the share of options kept is "
                f"{between(retrained['over_models'])}; {rate(retrained['robust'])} of people hold an option that "
                f"{percent(retrained['validity'])} or more of such models honor, with probability "
                f"{percent(retrained['confidence'])}. "
                f"Trained on the unchanged data, the model decides as before for {rate(retrained['reproduced'])}."
            )
        )
    return tuple(blocks)


def _burden(burden: Json) -> str:
    if not burden["n"]:
        return "unknown (nobody refused)"
    value, low, high = (
        "beyond every cost" if burden[k] is None else decimal(burden[k]) for k in ("value", "low", "high")
    )
    return f"{value} ({low}{HARD}to{HARD}{high})"


def _group_name(group: Json) -> str:
    parts = [f"{name} = {label}" for name, label in zip(group["attributes"], group["labels"], strict=True)]
    return " & ".join(parts) or "everyone"
