"""Which method for which purpose: a guard against using an explanation for what it cannot do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from turnabout.documents import Document
from turnabout.errors import ExplainError
from turnabout.markup import report_html
from turnabout.parameters import Choice, checked

Goal = Literal["debug", "rank", "recourse", "audit"]
Room = Literal["explain.shapley", "explain.lime", "explain.slopes", "explain.trust", "explain.reason_codes", "methods"]
HOME: dict[str, Room] = {
    "ExactShapley": "explain.shapley",
    "KernelShap": "explain.shapley",
    "Occlusion": "explain.shapley",
    "LimeTable": "explain.lime",
    "LimeText": "explain.lime",
    "LimeImage": "explain.lime",
    "CLime": "explain.slopes",
    "Gradient": "explain.slopes",
    "SmoothGrad": "explain.slopes",
    "IntegratedGradients": "explain.slopes",
    "GradientTimesInput": "explain.slopes",
    "disagreement": "explain.trust",
    "manipulability": "explain.trust",
    "randomisation": "explain.trust",
    "reasons": "explain.reason_codes",
    "responsiveness": "explain.reason_codes",
}


@dataclass(frozen=True)
class Advice(Document):
    """A name in a room of turnabout, such as `explain.shapley` or `methods`, and why it serves or does not serve."""

    name: str
    room: Room
    why: str


@dataclass(frozen=True)
class Recommendation(Document):
    """Methods for a declared goal.

    Attributes
    ----------
    methods : what to use, and why.
    refused : what is not to be presented as an answer to this goal, and why.
    cautions : what a reader must know whatever is used.
    """

    goal: Goal
    methods: tuple[Advice, ...]
    refused: tuple[Advice, ...]
    cautions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(advice.name for advice in self.methods)

    _repr_html_ = report_html

    def __str__(self) -> str:
        lines = [f"for the goal '{self.goal}':"]
        lines += [f"  use {advice.room}.{advice.name}: {advice.why}" for advice in self.methods]
        lines += [f"  not {advice.room}.{advice.name}: {advice.why}" for advice in self.refused]
        return "\n".join(lines + [f"  caution: {caution}" for caution in self.cautions])


def _explain(name: str, why: str) -> Advice:
    return Advice(name, HOME[name], why)


NO_ADVICE = "it says how the score answers around a person, not what they can change nor how far they must go."
NO_BOUNDARY = "An attribution describes a smoothed score near a person; it is no distance to the boundary."
NO_AXIOM = "Axioms describe a method; they do not by themselves make it fit for a task."
METHODS_DIFFER = "Methods disagree: compare at least two with disagreement, and report both."
ATTRIBUTIONS = tuple(name for name in HOME if name[0].isupper())

ADVICE = {
    "debug": Recommendation(
        "debug",
        (
            _explain("Gradient", "shows what the model reacts to at this very point; needs a gradient."),
            _explain("SmoothGrad", "the same over a neighbourhood whose size you choose; works for trees too."),
            _explain("Occlusion", "shows what the score loses when one feature is removed; asks few rows."),
            _explain("LimeText", "shows which words of a text the score rests on."),
            _explain("LimeImage", "shows which parts of an image the score rests on."),
            _explain("randomisation", "tells whether the method looks at the model at all; run it before believing."),
        ),
        (),
        (NO_BOUNDARY, METHODS_DIFFER),
    ),
    "rank": Recommendation(
        "rank",
        (
            _explain("ExactShapley", "shares the score among features without sampling error, where they are few."),
            _explain("KernelShap", "the same by sampling, with standard errors, where there are more features."),
            _explain("Occlusion", "a second opinion that asks for one removal at a time."),
            _explain("disagreement", "tells how far two rankings agree before one of them is printed."),
        ),
        (),
        (
            NO_AXIOM,
            METHODS_DIFFER,
            "Every Shapley value depends on the background that stands for a removed feature: name it.",
        ),
    ),
    "recourse": Recommendation(
        "recourse",
        (
            Advice("ExactLinear", "methods", "the cheapest change, with a proof, for linear and additive models."),
            Advice("LocalSearch", "methods", "a counterfactual for any model, verified on the printed row."),
            Advice("Wachter", "methods", "a counterfactual for models with a gradient."),
            Advice("ActionSequences", "methods", "a sequence of actions a person can take, one step after another."),
            Advice("CausalRecourse", "methods", "acts with their effects on other features, given a causal model."),
            _explain("responsiveness", "how much of what they can change in one feature turns the decision."),
            _explain("reasons", "reasons for a refusal, each marked by whether they can act on it."),
        ),
        tuple(_explain(name, NO_ADVICE) for name in ATTRIBUTIONS),
        (
            "No attribution is both sensitive to recourse and continuous for every model (Fokkema et al., 2023).",
            "A plan that the model accepts need not improve the outcome that the model predicts.",
        ),
    ),
    "audit": Recommendation(
        "audit",
        (
            _explain("responsiveness", "finds people who are given reasons that they cannot act on."),
            _explain("reasons", "checks printed reasons against the plan and against what is within reach."),
            _explain("disagreement", "shows how much a reason depends on the method that gave it."),
            _explain("randomisation", "shows whether attributions depend on the model."),
            _explain("manipulability", "shows how far an attribution can be turned while the score stays."),
        ),
        (),
        (
            "What these probes do not find may still exist: their worst cases are lower bounds.",
            "A plausible explanation need not reflect the model.",
        ),
    ),
}


@checked(ExplainError, goal=Choice(*get_args(Goal)))
def recommend(goal: Goal, method: str | None = None) -> Recommendation:
    """What to use for a declared goal, and what not to present as an answer to it.

    Nobody says under which conditions an attribution method may be used; this says at least what each is for. For the
    goal "recourse" it answers with counterfactuals, sequences of actions and responsiveness, and refuses SHAP, LIME and
    every other attribution.

    Parameters
    ----------
    goal : "debug" (what does the model react to), "rank" (which features matter), "recourse" (what can a person do) or
        "audit" (can these explanations be trusted).
    method : one you intend to use, by its name; refused with an error where it cannot serve the goal.
    """
    answer = ADVICE[goal]
    if method is None:
        return answer
    for advice in answer.refused:
        if advice.name == method:
            raise ExplainError(
                f"{method} does not serve the goal '{goal}': {advice.why}", hint=f"use {', '.join(answer.names)}."
            )
    known = {advice.name for one in ADVICE.values() for advice in (*one.methods, *one.refused)}
    if method not in known:
        raise ExplainError(f"method={method!r} is not known here.", hint=f"known are {', '.join(sorted(known))}.")
    if method not in answer.names and method not in ATTRIBUTIONS:
        raise ExplainError(f"{method} serves other goals than '{goal}'.", hint=f"use {', '.join(answer.names)}.")
    return answer
