"""Agreement of methods: the six measures on numbers done by hand, and what cannot be compared."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from turnabout.core import Attribution
from turnabout.errors import ExplainError
from turnabout.explain.trust.disagreement import METRICS, disagreement


def attribution(values: pd.DataFrame, **rest: object) -> Attribution:
    fields = {
        "errors": None,
        "base": None,
        "output": pd.Series(0.0, index=values.index),
        "kind": "contribution",
        "space": "concept",
        "score": "margin (log-odds)",
        "made_by": "By hand",
        "exact": True,
        "asked": 0,
        "seed": None,
    }
    return Attribution(values=values, **(fields | rest))  # type: ignore[arg-type]


def table(rows: list[list[float]], columns: str = "abcd") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns), index=[f"p{i}" for i in range(len(rows))])


def test_six_measures_by_hand():
    # sizes 4 3 2 1 -> top 3: a b c.   sizes 1 3 4 2 -> top 3: c b d.
    first, second = attribution(table([[4, -3, 2, 1]])), attribution(table([[1, 3, 4, -2]]))
    found = disagreement({"first": first, "second": second}, k=3).table.loc[("first", "second", "p0")]
    assert found["feature_agreement"] == pytest.approx(2 / 3)  # b and c
    assert found["sign_agreement"] == pytest.approx(1 / 3)  # c: b is -3 and 3
    assert found["rank_agreement"] == pytest.approx(1 / 3)  # b is second in both
    assert found["signed_rank_agreement"] == 0.0
    # rank differences of sizes: a 3, b 0, c -2, d -1 -> 1 - 6 * 14 / (4 * 15)
    assert found["rank_correlation"] == pytest.approx(1 - 6 * 14 / 60)
    # pairs: ab ac ad bc bd cd; first orders > > > > > >, second < < < < > >
    assert found["pairwise_rank_agreement"] == pytest.approx(2 / 6)


def test_a_method_agrees_with_itself_and_not_with_its_opposite_in_sign():
    rng = np.random.default_rng(0)
    values = pd.DataFrame(rng.normal(size=(20, 6)))
    found = disagreement({"a": attribution(values), "b": attribution(values), "c": attribution(-values)}, k=4)
    assert (found.table.loc[("a", "b")] == 1.0).all().all()
    opposite = found.table.loc[("a", "c")].astype(float)
    assert (opposite[["sign_agreement", "signed_rank_agreement"]] == 0.0).all().all()
    others = ["feature_agreement", "rank_agreement", "rank_correlation", "pairwise_rank_agreement"]
    assert np.allclose(opposite[others], 1.0)


def test_rank_correlation_is_that_of_scipy_with_ties():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (30, 7)).astype(float) for _ in range(2))
    found = disagreement({"a": attribution(pd.DataFrame(a)), "b": attribution(pd.DataFrame(b))})
    wanted = [spearmanr(np.abs(u), np.abs(v)).statistic for u, v in zip(a, b, strict=True)]
    assert found.table["rank_correlation"].astype(float).to_numpy() == pytest.approx(wanted)


def test_order_of_columns_and_people_does_not_matter():
    rng = np.random.default_rng(2)
    a, b = (table(rng.normal(size=(5, 4)).tolist()) for _ in range(2))
    straight = disagreement({"a": attribution(a), "b": attribution(b)})
    turned = disagreement({"a": attribution(a), "b": attribution(b.iloc[::-1, ::-1])})
    pd.testing.assert_frame_equal(straight.table, turned.table)


def test_an_attribution_of_equal_sizes_has_no_rank_correlation():
    flat, other = attribution(table([[1, -1, 1, 1]])), attribution(table([[4, 3, 2, 1]]))
    found = disagreement({"flat": flat, "other": other})
    assert found.table["rank_correlation"].isna().all()
    assert found.to_dict()["means"][0]["rank_correlation"] is None
    json.dumps(found.to_dict(), allow_nan=False)
    assert "rank correlation undefined" in str(found)


def test_tidy_frame_means_and_words():
    a, b = attribution(table([[4, 3, 2, 1]] * 2)), attribution(table([[4, 3, 2, 1], [1, 2, 3, 4]]), space="input")
    found = disagreement({"a": a, "b": b}, k=1)
    frame = found.to_frame()
    assert list(frame.columns) == ["first", "second", "person", "metric", "value"]
    assert len(frame) == 2 * len(METRICS)
    assert found.means.loc[("a", "b"), "feature_agreement"] == 0.5
    assert found.means.loc[("a", "b"), "rank_correlation"] == 0.0
    assert "feature agreement 0.50 (0.00 to 1.00)" in str(found)
    assert found.notes == ("the methods differ in their space: concept, input.",)


def test_contributions_and_slopes_compare_with_a_note():
    a = attribution(table([[4, 3, 2, 1]]))
    found = disagreement({"a": a, "b": attribution(a.values, kind="slope")})
    assert found.notes == ("the methods differ in their kind: contribution, slope.",)


def test_what_cannot_be_compared_is_refused():
    a = attribution(table([[4, 3, 2, 1]]))
    with pytest.raises(ExplainError, match="at least two methods"):
        disagreement({"a": a})
    with pytest.raises(ExplainError, match="not an Attribution"):
        disagreement({"a": a, "b": a.values})  # type: ignore[dict-item]
    with pytest.raises(ExplainError, match="contributions and 'b' directions"):
        disagreement({"a": a, "b": attribution(a.values, kind="direction")})
    with pytest.raises(ExplainError, match="different columns, such as"):
        disagreement({"a": a, "b": attribution(table([[4, 3, 2, 1]], "abce"))})
    with pytest.raises(ExplainError, match="different people"):
        disagreement({"a": a, "b": attribution(table([[4, 3, 2, 1]] * 2))})
    with pytest.raises(ExplainError, match="holds NaN"):
        disagreement({"a": a, "b": attribution(table([[4, 3, 2, np.nan]]))})
    with pytest.raises(ExplainError, match="no people"):
        disagreement({"a": attribution(a.values[:0]), "b": attribution(a.values[:0])})
    for k in (0, 5, 2.0, True):
        with pytest.raises(ExplainError, match="is not a whole number from 1"):
            disagreement({"a": a, "b": a}, k=k)  # type: ignore[arg-type]
