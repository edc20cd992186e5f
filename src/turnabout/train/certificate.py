"""Certificate: what is promised, on what evidence and under which assumptions; Shortfall: why nothing is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Literal, NamedTuple

import numpy as np

from turnabout.documents import Versioned
from turnabout.errors import TrainingError
from turnabout.intervals import binomial_cdf
from turnabout.markup import report_html
from turnabout.train.evidence import plain, read_reached, split_groups
from turnabout.train.thresholds import HAIR, check_scores, cut, just_below, no_ties, pac_rank, smallest
from turnabout.typing import Level

Kind = Literal["scores", "search", "answer"]


class GroupCertificate(NamedTuple):
    """The certificate of one group."""

    label: Level
    certificate: Certificate


@dataclass(frozen=True)
class Certificate(Versioned):
    r"""A guarantee on how many people have recourse, with all that is needed to check it.

    With probability at least 1 - alpha over the draw of the n calibration people,

        P( a new person is accepted or can reach acceptance ) >= 1 - epsilon                               (1)

    at `threshold` and at every lower one: people accepted at a threshold, as they are or after a change, are accepted
    at any lower one. The exact probability that (1) fails is at most

        failure = P( Binomial(n, epsilon) <= k )  <=  alpha                                                (2)

    and equals it when no two scores can tie.

    Attributes
    ----------
    n, k : calibration people, and how many of them may fall short.
    epsilon, alpha : the share that may be left without recourse; the probability with which the promise may fail.
    threshold : the highest threshold for which (1) is promised; None where model and threshold were fixed beforehand.
        Of kind "scores" it lies a hair below the score of one of the people (`just_below`), as options of the library
        must lie beyond a threshold by a hair.
    failure : (2); with groups, the sum over them, which bounds the probability that any of their promises fails.
    short : calibration people who fall short at the threshold, k at most.
    kind : the evidence. "scores": each person's best score under a rule that does not look at the threshold. "search":
        a method run at one threshold after the other. "answer": one answer for a fixed model.
    made_by : what computes recourse.
    assumptions : what must be true of the world; nothing here can check it entirely.
    groups : (label, certificate) for each group, with a threshold of its own. The whole then holds for each of them
        at once, and `threshold` is the lowest of theirs.
    exact : whether `failure` is the failure probability and no mere bound of it: of kind "scores", where nobody else
        has the score at the threshold.
    """

    n: int
    k: int
    epsilon: float
    alpha: float
    threshold: float | None
    failure: float
    short: int
    kind: Kind = "scores"
    made_by: str = ""
    assumptions: tuple[str, ...] = ()
    groups: tuple[GroupCertificate, ...] = ()
    exact: bool = False

    mark = "turnabout_certificate"
    error = TrainingError
    keys = "n k epsilon alpha threshold failure short kind made_by exact assumptions groups"
    later = "exact"

    @classmethod
    def together(cls, groups: Iterable[tuple[Level, Certificate]], alpha: float) -> Certificate:
        """One certificate of the certificates of groups; alpha is that of all of them together."""
        named = tuple(GroupCertificate(*group) for group in groups)
        parts = [part for _, part in named]
        thresholds = [part.threshold for part in parts if part.threshold is not None]
        first = parts[0]
        return cls(
            n=sum(part.n for part in parts),
            k=sum(part.k for part in parts),
            epsilon=first.epsilon,
            alpha=alpha,
            threshold=min(thresholds, default=None),
            failure=min(1.0, math.fsum(part.failure for part in parts)),
            short=sum(part.short for part in parts),
            kind=first.kind,
            made_by=first.made_by,
            assumptions=first.assumptions,
            groups=named,
        )

    @property
    def by_group(self) -> dict[Level, Certificate]:
        """The certificate of each group; empty where there are none."""
        return dict(self.groups)

    def permits(self, threshold: float, group: Level | None = None) -> bool:
        """Whether the promise holds at this threshold, for everyone or for the people of one group.

        With kind "search", people below the certified threshold have the plans found at that threshold; a search at
        the lower one may still miss them.
        """
        part = self if group is None else self.by_group.get(group)
        if part is None:
            raise TrainingError(
                f"the certificate has no group {group!r}.",
                hint=f"its groups are {', '.join(map(repr, self.by_group)) or 'none: leave group out'}.",
            )
        if part.threshold is None:
            raise TrainingError(
                "this certificate is about one fixed model and promises nothing for other thresholds.",
                hint="calibrate(model, people, ...) finds the thresholds for which recourse can be promised.",
            )
        return bool(threshold <= part.threshold)

    def check(self, evidence: Any, groups: Any = None) -> bool:
        """Whether this certificate follows from the evidence, computed anew.

        Parameters
        ----------
        evidence : for kind "scores", the scores; else who was accepted or has an option at the threshold: statuses of
            an answer, or booleans.
        groups : the label of each person, where the certificate has groups.
        """
        if self.groups:
            if groups is None:
                raise TrainingError("the certificate has groups.", hint="check(evidence, groups) takes their labels.")
            whole = np.asarray(evidence)
            masks = {plain(label): mask for label, mask in split_groups(groups, len(whole))}
            if set(masks) != set(self.by_group) or self != Certificate.together(self.groups, self.alpha):
                return False
            fair = all(math.isclose(part.alpha, self.alpha / len(masks)) for part in self.by_group.values())
            return fair and all(part.check(whole[masks[label]]) for label, part in self.groups)
        if self.kind == "scores":
            scores = check_scores(evidence)
            n, follows = len(scores), self._follows_from(scores)
        else:
            reached = read_reached(evidence)
            n, follows = len(reached), int((~reached).sum()) == self.short
        return n == self.n and self._adds_up() and follows

    def _follows_from(self, scores: np.ndarray) -> bool:
        if len(scores) <= self.k or self.threshold is None:
            return False
        score = smallest(scores, self.k)
        right = self.threshold <= score and math.isclose(self.threshold, just_below(score), rel_tol=10 * HAIR)
        claims = not self.exact or no_ties(scores, score, self.k)
        return right and claims and self.short == int((scores < self.threshold).sum())

    def _adds_up(self) -> bool:
        """Whether its own numbers agree with each other."""
        right_rank = self.k == pac_rank(self.n, self.epsilon, self.alpha) and 0 <= self.short <= self.k
        return right_rank and math.isclose(self.failure, binomial_cdf(self.k, self.n, self.epsilon), rel_tol=1e-6)

    # -- words ------------------------------------------------------------------------------------------------

    _repr_html_ = report_html

    def __str__(self) -> str:
        confidence, share = all_but(self.alpha), all_but(self.epsilon)
        failure = f"{upward(100 * self.failure)} %"
        start = f"With {confidence} confidence over the draw of {self.n} calibration people, at least {share} of people"
        means = f" by {self.made_by}" if self.made_by else ""
        if self.groups:
            limits = [f"{downward(p.threshold)} for {label!r}" for label, p in self.groups if p.threshold is not None]
            when = f"when the threshold is at most {_listed(limits)}" if limits else "by this model"
            may = _listed([f"{part.k} of {part.n}" for _, part in self.groups])
            return (
                f"{start} in each group are accepted or can reach acceptance{means} {when} "
                f"({may} may fall short; failure probability at most {failure})."
            )
        if self.threshold is None:
            return (
                f"{start} like them are accepted by this model or find a way to acceptance{means} ({self.short} of "
                f"{self.n} fell short and {self.k} might have; failure probability at most {failure})."
            )
        exact = "exact failure probability" if self.exact else "failure probability at most"
        return (
            f"{start} like them are accepted or can reach acceptance{means} when the threshold is at most "
            f"{downward(self.threshold)} ({self.k} of {self.n} may fall short; {exact} {failure})."
        )


@dataclass(frozen=True)
class Shortfall(Versioned):
    """No certificate: too many people fell short, or too few were asked. False in a condition.

    Attributes
    ----------
    n, short : people asked, and how many of them are neither accepted nor have an option.
    k : how many might have fallen short; None where n is too small for any promise.
    epsilon, alpha : what was asked for.
    at_least : the share that can be promised instead, with confidence 1 - alpha (exact, one-sided).
    low, high : the two-sided Clopper-Pearson interval of the share, of the same confidence.
    needed : the fewest people with whom the promise could have been made, had nobody fallen short.
    made_by : what computes recourse.
    """

    n: int
    short: int
    k: int | None
    epsilon: float
    alpha: float
    at_least: float
    low: float
    high: float
    needed: int
    made_by: str = ""

    mark = "turnabout_shortfall"
    error = TrainingError

    def __bool__(self) -> bool:
        return False

    _repr_html_ = report_html

    def __str__(self) -> str:
        if self.k is None:
            why = f"{self.n} people are too few ({self.needed} are needed even if nobody falls short)"
        else:
            why = f"{self.short} of {self.n} people fell short and at most {self.k} may"
        means = f" by {self.made_by}" if self.made_by else ""
        return (
            f"No certificate for {all_but(self.epsilon)}: {why}; with {all_but(self.alpha)} confidence, "
            f"at least {in_percent(self.at_least)} of people like them are accepted or find a way to acceptance{means}."
        )


# -- numbers in words -------------------------------------------------------------------------------------------------


def downward(value: float | None, digits: int = 3) -> str:
    """A number in a few digits, never above itself: a promise may not grow by rounding.

    >>> downward(0.41879), downward(0.0023499), downward(0.5)
    ('0.418', '0.00234', '0.5')
    """
    return _digits(Decimal(repr(float(value or 0.0))), digits, ROUND_FLOOR)


def upward(value: float, digits: int = 3) -> str:
    """A number in a few digits, never below itself: what may go wrong may not shrink by rounding.

    >>> upward(3.6308), upward(0.05), upward(1.2341e-13)
    ('3.64', '0.05', '1.24e-13')
    """
    exact = Decimal(repr(float(value)))
    text = _digits(exact, digits, ROUND_CEILING)
    return text if exact.adjusted() > -5 else f"{float(text):g}"


def in_percent(share: float) -> str:
    """A share in percent, rounded down: 0.95 -> "95 %"; 100 only where it is all."""
    rounded = round(100 * share, 9)
    return f"{downward(min(rounded, 99.99) if share < 1 else rounded, 4)} %"


def all_but(share: float) -> str:
    """What a share leaves, in percent and rounded down.

    >>> all_but(0.05), all_but(1e-20)
    ('95 %', '99.99 %')
    """
    rest = 100 - 100 * Decimal(repr(float(share)))
    return f"{_digits(min(rest, Decimal('99.99')), 4, ROUND_FLOOR)} %"


def _digits(value: Decimal, digits: int, rounding: str) -> str:
    return format(cut(value, digits, rounding).normalize(), "f") if value else "0"


def _listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
