"""The page of an audit: what recourse would do to a lender's risk and to people, drawn from its JSON alone."""

from __future__ import annotations

from turnabout.documents import Document, reads
from turnabout.errors import TurnaboutError
from turnabout.render.audit_advice import incentive_blocks, review_blocks
from turnabout.render.audit_groups import fairness_blocks, group_blocks, lasting_blocks
from turnabout.render.audit_risk import landing_blocks, price_blocks, risk_blocks
from turnabout.render.page import (
    Html,
    Section,
    between,
    bullets,
    heading,
    literal,
    number,
    paragraph,
    rate,
    read_document,
    sentence,
    signed,
    write_page,
)
from turnabout.typing import Json

VERSION = 1
PLAIN_VERDICT = {
    "HARM": "More wrong decisions",
    "BENEFIT": "Fewer wrong decisions",
    "UNDETERMINED": "Not determined",
}


@reads("this audit", TurnaboutError, "pass what `turnabout audit` wrote, as it was written.")
def audit_page(document: Json | Document) -> str:
    """The page as one text of HTML, which needs no other file.

    Parameters
    ----------
    document : as `turnabout audit` writes it, or the report that `turnabout.audit.report` returns.
        Every number of the page is in it.
    """
    document = read_document(document, "turnabout_audit", VERSION, "an audit")
    risk = document["risk"]
    lead = [
        paragraph(f"{PLAIN_VERDICT[risk['verdict']]} ({risk['verdict']}). {verdict_sentence(risk)}", "lead"),
        paragraph(_who(document)),
    ]
    sections = [
        Section("What this means, and what it does not", _meaning(document)),
        Section("Risk before and after", risk_blocks(document)),
        Section("Where people land", landing_blocks(document)),
        Section("The price of landing higher", price_blocks(document)),
        Section("By group", group_blocks(document)),
        Section("Who has recourse, and at what price", fairness_blocks(document)),
        Section("What a reader would question", review_blocks(document)),
        Section("What the model pays people for", incentive_blocks(document)),
        Section("Do the options last?", lasting_blocks(document)),
        Section("What this rests on", _assumptions(document)),
        Section("How to get the same numbers", _reproduce(document)),
    ]
    return write_page("Audit of recourse", lead, sections)


def verdict_sentence(risk: Json) -> str:
    """What offering recourse would do to the share of wrong decisions, with its interval, in one sentence.

    Parameters
    ----------
    risk : a RiskReport as a dict.
    """
    excess, before, after = risk["excess"]["given"], risk["risk_before"], risk["risk_after"]["given"]
    low, high, level = excess["low"], excess["high"], f"{risk['confidence']:.0%}".replace("%", " %")
    if low is None or high is None:
        return f"Nothing can be said of the change in wrong decisions: {risk['reason']}"
    span = f"{signed(low)} to {signed(high)}"
    if excess["value"] is None:
        head = {"HARM": "would raise", "BENEFIT": "would lower"}.get(risk["verdict"], "may raise or lower")
        return (
            f"Offering this recourse {head} the share of wrong decisions; the change lies within {span}, which holds "
            f"both what is not known of the refused and the {level} interval."
        )
    moved = f"from {number(before['value'])} to {number(after['value'])}"
    by = f"a change of {signed(excess['value'])} with a {level} interval of {span}"
    if risk["verdict"] == "UNDETERMINED":
        return (
            f"Whether offering this recourse raises or lowers the share of wrong decisions cannot be told: it would go "
            f"{moved}, {by}, which holds 0."
        )
    verb = "raise" if risk["verdict"] == "HARM" else "lower"
    return f"Offering this recourse would {verb} the share of wrong decisions {moved}, {by}."


def break_even_words(risk: Json) -> str:
    """The compliance at which recourse changes nothing, and what that says; without a full stop."""
    if risk["bounds"] and risk["break_even"]["value"] is None:
        return "not known, as outcomes of the refused are not"
    return f"{between(risk['break_even'], 2)}; {risk['break_even_note']}"


# -- sections -----------------------------------------------------------------------------------------------------


def _who(document: Json) -> str:
    risk, asked = document["risk"], document["asked"]
    movers = "nobody would" if not risk["movers"] else f"{number(risk['movers'])} would be expected to"
    landing = "" if asked["landing"] is None else f", landing where asked ({asked['landing']})"
    share = (
        "an outcome that was given" if risk["compliance"] is None else f"a compliance of {number(risk['compliance'])}"
    )
    return (
        f"{number(risk['n'])} people, {number(risk['refused'])} of them refused, {number(risk['offered'])} of these "
        f"with an option by {document['answer']['made_by'].split(', landing=')[0]}{landing}; {movers} take it. "
        f"Assumed: {share}, and options taken up {_taken_up(asked['accept'])}."
    )


def _taken_up(accept: float | str) -> str:
    return f"as {accept} says" if isinstance(accept, str) else f"with probability {number(accept)}"


def _meaning(document: Json) -> tuple[Html, ...]:
    risk = document["risk"]
    means = [
        "A wrong decision is a yes to someone who does not repay, or a no to someone who would have. Both count the "
        "same.",
        "Recourse tells refused people what to change to be accepted. Those who do are accepted, so that every move "
        "corrects a wrong no or makes a wrong yes.",
        "Compliant people really become what their new row says. Defiant people only look like it, and repay no more "
        "often than before. Most populations lie between the two.",
        "Break-even compliance is the share of real improvement at which recourse changes nothing: "
        f"{break_even_words(risk)}.",
    ]
    means_not = [
        "It is no judgment on whether people deserve to know what they can do: it counts the lender's mistakes. A "
        "person may gain from recourse that raises the lender's risk.",
        "It is no forecast. Nobody has been seen moving: how likely people are to repay at their new row is read off "
        "people who were there already.",
        "It speaks of these people and this model. Other applicants, another method or a new model need another audit.",
        "The intervals tell what another draw of people might show. "
        + (
            "They take the probabilities of repaying as fitted and do not hold the error in them."
            if not risk["refit"]
            else "They also hold the error in the probabilities of repaying, which were fitted anew."
        ),
    ]
    return heading("It means"), bullets(means), heading("It does not mean"), bullets(means_not)


def _assumptions(document: Json) -> tuple[Html, ...]:
    risk, asked = document["risk"], document["asked"]
    points = []
    if asked["observed"] == "all":
        points.append("Outcomes of all people are taken to be known, also of those whom the model refuses.")
    else:
        points.append(
            "Outcomes of the approved alone are known. What the refused would have done may be anything, so that "
            "figures are bounds and not points."
        )
    if (calibration := risk["calibration"]) is not None and calibration["error"] is not None:
        near = ""
        if calibration["near_error"] is not None:
            near = f", near the landing points {number(calibration['near_error'])}"
            near += f" (chance alone: {number(calibration['near_noise'])})"
        points.append(
            f"The probabilities of repaying miss what happened by {number(calibration['error'])} on average over bins "
            f"of people (chance alone: {number(calibration['noise'])}){near}."
        )
    else:
        points.append("How well the probabilities of repaying are calibrated cannot be told.")
    ends = risk["excess_if_outside"]
    worst = (
        ""
        if ends is None
        else f" If P(repays) there were anything, the change would lie within {signed(ends[0])} to {signed(ends[1])}."
    )
    if risk["outside"]["n"]:
        points.append(f"Landing points where hardly anyone has been seen: {rate(risk['outside'])}.{worst}")
    counts = ", ".join(
        f"{number(n)} {name.replace('_', ' ').lower()}" for name, n in document["answer"]["counts"].items() if n
    )
    points.append(f"Answers: {counts}. A method that finds nothing without proof may have missed something.")
    points += [*document["notes"], *risk["notes"], *document["warnings"]]
    return (bullets(sentence(point) for point in points),)


def _reproduce(document: Json) -> tuple[Html, ...]:
    risk = document["risk"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    moving = [feature["title"] for feature in document["model"]["features"] if feature["moves"] != "fixed"]
    return (
        literal(document["command"]),
        bullets(
            [
                f"Model: {document['model']['title']}.",
                f"Method: {document['answer']['made_by']}.",
                f"Columns that may move: {', '.join(moving) or 'none'}.",
                f"Seed {risk['seed']}; {number(risk['bootstrap'])} bootstrap replicates; "
                f"probabilities of repaying fitted anew {number(risk['refit'])} times.",
                f"Versions: {versions}.",
                "This page was drawn from the JSON beside it, which holds every number shown.",
            ]
        ),
    )
