"""What an audit says of the advice itself: what a reader would question, and what the model pays people for."""

from __future__ import annotations

from turnabout.render.page import Html, bullets, literal, number, paragraph, rate, table
from turnabout.typing import Json

PLAIN_CONCERNS = {
    "tiny": "Changes too small to be worth making",
    "odd amounts": "Amounts that nobody counts in",
    "unseen values": "Values that no accepted person has",
    "unlike similar people": "Values that no accepted person like them has",
    "loophole": "One column that most people are sent to",
    "against the direction": "Changes that nobody should be advised to make",
    "not theirs to change": "Changes that are not the person's to make",
    "moves alone": "A column that moves without what moves along with it in life",
    "nearly the same": "Options that are nearly the same",
    "inconsistent": "Rows that contradict themselves",
}


def review_blocks(document: Json) -> tuple[Html, ...]:
    """The concerns about the options, the most frequent first, and the lines of a schema that mend them."""
    review = document.get("review")
    if review is None:
        return ()
    if not review["options"]:
        return (paragraph("Nobody was given an option, so that there is nothing to read."),)
    read = (
        f"{number(review['options'])} options of {number(review['people'])} people were read as a careful loan officer "
    )
    if not review["concerns"]:
        return (paragraph(f"{read} There is nothing to question."),)
    titles = _titles(document)
    mends = list(dict.fromkeys(concern["mend"] for concern in review["concerns"]))
    return (
        paragraph(
            f"{read} Each remark has an example and says how many options, or pairs of options, it concerns. A remark "
            "is a question, not a proof of a mistake."
        ),
        bullets(_concern(concern, titles) for concern in review["concerns"]),
        paragraph("What would mend it, as lines of the schema or of the problem:"),
        literal("\n".join(mends)),
    )


def incentive_blocks(document: Json) -> tuple[Html, ...]:
    """The columns that have a good direction, and how many people are rewarded for going the other way."""
    incentives = document.get("incentives")
    if incentives is None:
        return ()
    columns = incentives["columns"]
    if not columns:
        return (paragraph("No column has a direction that the schema, its name or the labels call good."),)
    titles = _titles(document)
    paid = sum((column["paid"]["value"] or 0) > 0 for column in columns)
    finding = (
        "Nobody is rewarded for going the wrong way in any of them."
        if not paid
        else f"For {number(paid)} of them some people would score better by going the wrong way, all else unchanged. "
        "A model that pays for that invites people to game it, and recourse can send them there unless the schema "
        "forbids it."
    )
    many = "1 column has" if len(columns) == 1 else f"{number(len(columns))} columns have"
    return (
        paragraph(f"{many} a good direction. {finding}"),
        table(
            ("column", "good direction", "who says so", "people paid for the other way", "refused accepted for it"),
            (
                (
                    titles.get(column["feature"], column["feature"]),
                    column["good"],
                    column["because"],
                    rate(column["paid"]),
                    rate(column["turned"]),
                )
                for column in columns
            ),
            "What the model does to people who move one column the wrong way",
        ),
    )


def _concern(concern: Json, titles: dict[str, str]) -> str:
    """One concern as a sentence, after what it is called in plain words."""
    plain = PLAIN_CONCERNS.get(concern["kind"], concern["kind"])
    column = f", {titles.get(concern['feature'], concern['feature'])}" if concern["feature"] else ""
    return f"{plain}{column} ({number(concern['count'])} of {number(concern['of'])}): {concern['says']}."


def _titles(document: Json) -> dict[str, str]:
    return {feature["name"]: feature["title"] for feature in document["model"]["features"]}
