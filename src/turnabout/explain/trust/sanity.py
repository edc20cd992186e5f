"""Do explanations look at the model? Those of a randomised model should differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from turnabout.documents import Document
from turnabout.errors import ExplainError
from turnabout.explain.explainer import Explainer
from turnabout.explain.score import Function, Output, Score, check_seed
from turnabout.explain.trust.disagreement import correlation, mean_ranks
from turnabout.intervals import mean_interval
from turnabout.markup import report_html
from turnabout.models import Model
from turnabout.parameters import Finite, Instance, Whole, checked
from turnabout.typing import Json

Explainable = Model | Score | Function
Verdict = Literal["DIFFER", "ALIKE", "UNDETERMINED"]


@dataclass(frozen=True, eq=False)
class Randomisation(Document):
    """How alike the attributions of a model and of randomised models are.

    Attributes
    ----------
    table : index (model, person): Spearman's correlation, over features, of the sizes and of the signed values;
        <NA> where it is undefined, because every feature has the same one.
    size, signed : the mean over models of each model's mean over people; None where nothing was defined.
    size_interval, signed_interval : Student's 95 % intervals of these, over models; people are taken as given.
    between : mean correlation of sizes between two randomised models; None with fewer than two. Where it is no lower
        than `size`, what the attributions share does not come from what the model learned.
    models, people : how many.
    alike : the correlation of sizes that the verdict compares with.
    made_by : the explainer.
    """

    table: pd.DataFrame
    size: float | None
    size_interval: tuple[float, float]
    signed: float | None
    signed_interval: tuple[float, float]
    between: float | None
    models: int
    people: int
    alike: float
    made_by: str

    @property
    def verdict(self) -> Verdict:
        """DIFFER where the whole interval of `size` is below `alike`, ALIKE where it is above, else UNDETERMINED."""
        low, high = self.size_interval
        if self.size is None:
            return "UNDETERMINED"
        return "DIFFER" if high < self.alike else "ALIKE" if low > self.alike else "UNDETERMINED"

    _repr_html_ = report_html

    def __str__(self) -> str:
        what = f"{self.made_by}, {self.models} randomised models, {self.people} people"
        if self.size is None:
            return f"UNDETERMINED: no rank correlation is defined ({what})."
        said = {
            "DIFFER": f"below {self.alike:g}: attributions change with what was randomised. "
            "That does not show that they are right",
            "ALIKE": f"above {self.alike:g}: what was randomised hardly shows in the attributions",
            "UNDETERMINED": f"not clearly on one side of {self.alike:g}; more models would narrow the interval",
        }[self.verdict]
        size, signed = _told(self.size, self.size_interval), _told(self.signed, self.signed_interval)
        between = "" if self.between is None else f"; between randomised models {self.between:.3f}"
        return f"{self.verdict}: rank correlation of sizes {size}, {said} (signed {signed}{between}; {what})."

    def to_frame(self) -> pd.DataFrame:
        """Tidy: model, person, size, signed."""
        return self.table.reset_index()

    def to_dict(self) -> Json:
        """Plain values for JSON; open ends of intervals are null."""
        out: Json = {"verdict": self.verdict, "alike": self.alike, "between": self.between, "made_by": self.made_by}
        for name in ("size", "signed"):
            low, high = getattr(self, f"{name}_interval")
            ends = {"low": low if np.isfinite(low) else None, "high": high if np.isfinite(high) else None}
            out[name] = {"value": getattr(self, name), **ends}
        return out | {"models": self.models, "people": self.people}


@checked(
    ExplainError,
    explainer=Instance(Explainer, "an explainer", hint="use one of turnabout.explain."),
    count=Whole(2),
    alike=Finite(above=-1, below=1),
)
def randomisation(
    explainer: Explainer,
    model: Explainable,
    randomised: Sequence[Explainable] | Callable[[int], Explainable],
    people: Any,
    *,
    count: int = 10,
    alike: float = 0.5,
    background: Any = None,
    output: Output = "margin",
    seed: int = 0,
) -> Randomisation:
    """The model-randomisation check: attributions of re-initialised or label-shuffled models must differ.

    Ranks of features under the model and under each randomised one are correlated (Spearman), person by person, once
    for the sizes of attributions and once with their signs. A method that passes looks at the model; whether it
    tells the truth about it is another question. With few features chance alone gives high and low correlations.

    Parameters
    ----------
    explainer : the method; it uses the same seed, and so the same draws, for every model.
    model : the one in use, in any form that the explainer takes.
    randomised : models of the same columns that cannot have learned; or a function from a seed to one, such as a
        training routine that shuffles the labels by that seed, called `count` times.
    people, background, output, seed : as for explain.
    alike : the correlation of sizes that divides verdicts.

    References
    ----------
    Adebayo et al. (2018), Sanity checks for saliency maps.
    """
    models = _models(randomised, count, seed)
    base = explainer.explain(model, people, background=background, output=output, seed=seed)
    if len(base.names) < 3:
        raise ExplainError(f"{len(base.names)} features have no ranks to correlate.", hint="use at least 3.")
    parts = []
    for i, other in enumerate(models):
        one = explainer.explain(other, people, background=background, output=output, seed=seed)
        if one.names != base.names:
            raise ExplainError(
                f"randomised model {i} has other columns than the model.", hint="wrap both with the same schema."
            )
        parts.append(one.values.to_numpy(dtype=np.float64))
    return _compare(base.values.to_numpy(dtype=np.float64), np.stack(parts), base.values.index, alike, repr(explainer))


def _models(randomised: Any, count: int, seed: int) -> list[Explainable]:
    if callable(randomised) and not isinstance(randomised, (Score, Model)):
        return [randomised(int(s)) for s in np.random.default_rng(check_seed(seed)).integers(2**31, size=count)]
    if not isinstance(randomised, Sequence) or len(randomised) < 2:
        raise ExplainError(
            "the check needs at least two randomised models.", hint="pass a list of models, or a function of a seed."
        )
    return list(randomised)


def _compare(base: np.ndarray, others: np.ndarray, index: pd.Index, alike: float, made_by: str) -> Randomisation:
    """Attributions (n, d) of the model and (m, n, d) of the randomised ones."""
    m, n, _ = others.shape
    found = {}
    for name, kind in (("size", np.abs), ("signed", np.asarray)):
        ranks = mean_ranks(kind(others))
        found[name] = correlation(mean_ranks(kind(base)), ranks)  # (m, n)
        if name == "size":
            first, second = np.triu_indices(m, 1)
            pairs = correlation(ranks[first], ranks[second])  # (m (m - 1) / 2, n)
    table = pd.DataFrame(
        {name: pd.array(values.ravel(), dtype="Float64") for name, values in found.items()},
        index=pd.MultiIndex.from_product([range(m), index], names=["model", "person"]),
    )
    (size, size_interval), (signed, signed_interval) = (_over_models(found[name]) for name in ("size", "signed"))
    return Randomisation(table, size, size_interval, signed, signed_interval, _mean(pairs), m, n, float(alike), made_by)


def _over_models(values: np.ndarray) -> tuple[float | None, tuple[float, float]]:
    """(m, n) -> the mean over models of each one's mean over people, and its interval over models."""
    means = [one for row in values if (one := _mean(row)) is not None]
    if not means:
        return None, (-np.inf, np.inf)
    return float(np.mean(means)), mean_interval(means)


def _mean(values: np.ndarray) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def _told(value: float | None, interval: tuple[float, float]) -> str:
    return "undefined" if value is None else f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
