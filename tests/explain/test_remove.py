"""What stands in for removed features, and that features are removed whole."""

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.explainer import ExplanationTask
from turnabout.explain.score import Ridge, Score
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap
from turnabout.explain.shapley.occlusion import Occlusion
from turnabout.explain.shapley.remove import Background, Conditional, Marginals, Remove, Typical


@pytest.fixture
def loans():
    """People with a category, a missing cell and a number; P(yes) by a function of the raw table."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": rng.integers(10, 90, 60).astype(float),
            "job": rng.choice(["clerk", "nurse", "smith"], 60),
            "debt": np.where(rng.random(60) < 0.3, np.nan, rng.integers(0, 50, 60)),
        }
    )
    schema = ta.Schema.infer(table)

    def answer(rows):
        good = (
            rows["income"].to_numpy(float) / 50
            + (rows["job"] == "nurse").to_numpy() * rows["income"].to_numpy(float) / 90
        )
        good = good - rows["debt"].fillna(60.0).to_numpy(float) / 40
        return 1 / (1 + np.exp(-good))

    return table, ta.models.wrap(answer, schema)


def question(table, model, background=None, seed=0):
    schema = model.schema
    rows = None if background is None else schema.encode(background)
    return ExplanationTask(Score.of(model, "probability"), schema.encode(table), schema, rows, seed)


def by_hand(model, person, background, kept):
    """f_x(S): the raw rows, written out."""
    rows = background.copy()
    for name in kept:
        rows[name] = person[name]
    return float(model.probability(model.schema.encode(rows)).mean())


def test_a_feature_is_removed_whole(loans):
    table, model = loans
    asked = question(table.iloc[:4], model, table.iloc[20:40])
    operation = Background().operation(asked)
    masks = torch.tensor([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]], dtype=torch.float64)
    found = operation.values(asked.score, asked.x, masks)
    for i in range(4):
        for j, kept in enumerate((["income"], ["job", "debt"], [], ["income", "job", "debt"])):
            assert float(found[i, j]) == pytest.approx(
                by_hand(model, table.iloc[i], table.iloc[20:40], kept), abs=1e-12
            )


def test_occlusion_by_hand(loans):
    table, model = loans
    background = table.iloc[20:40]
    answer = Occlusion().explain(model, table.iloc[:3], background=background, output="probability")
    assert answer.names == ["income", "job", "debt"] and answer.space == "concept" and answer.exact
    assert answer.base is None and answer.seed is None
    for i in range(3):
        full = by_hand(model, table.iloc[i], background, ["income", "job", "debt"])
        due = [
            full - by_hand(model, table.iloc[i], background, kept)
            for kept in (["job", "debt"], ["income", "debt"], ["income", "job"])
        ]
        np.testing.assert_allclose(answer.values.iloc[i], due, atol=1e-12)


def test_occlusion_of_a_linear_function():
    w, rng = np.array([2.0, -1.0, 0.5]), np.random.default_rng(1)
    x, background = rng.standard_normal((4, 3)), rng.standard_normal((9, 3))
    answer = Occlusion().explain(lambda p: p @ torch.as_tensor(w), x, background=background)
    np.testing.assert_allclose(answer.values, w * (x - background.mean(0)), atol=1e-12)


def test_shapley_of_people_adds_up(loans):
    table, model = loans
    for removal in (Background(10), Typical(), Marginals(20), Conditional()):
        answer = ExactShapley(removal=removal).explain(
            model, table.iloc[:5], background=table.iloc[20:], output="probability"
        )
        assert answer.gap.abs().max() < 1e-12 and answer.names == ["income", "job", "debt"]
        assert KernelShap(removal=removal).explain(
            model, table.iloc[:5], background=table.iloc[20:], output="probability"
        ).values.sub(answer.values).abs().to_numpy().max() < 1e-12  # fmt: skip


def test_background_rows_are_spread_evenly(loans):
    table, model = loans
    asked = question(table, model, table)
    assert torch.equal(Background(3).taken(asked), asked.background[[0, 30, 59]])
    assert len(Background(None).taken(asked)) == 60 and len(Background(100).taken(asked)) == 60
    assert "3 of 60 background rows" in Background(3).note(asked)


def test_typical_is_the_median_and_the_most_frequent_level(loans):
    table, model = loans
    rows = Typical().operation(question(table, model, table)).rows
    typical = model.schema.decode(rows).iloc[0]
    assert typical["income"] == sorted(table["income"])[29]
    assert typical["job"] == table["job"].mode()[0]
    assert typical["debt"] == sorted(table["debt"].dropna())[(table["debt"].notna().sum() - 1) // 2]
    mostly = table.assign(debt=table["debt"].where(np.arange(60) % 4 == 0))
    assert model.schema.decode(Typical().operation(question(table, model, mostly)).rows)["debt"].isna().all()


def test_marginals_break_what_goes_together():
    """Two equal columns: rows keep them equal, independent draws do not."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((200, 1)), 2, axis=1)
    asked = ExplanationTask(
        Score(lambda x: x[:, 0]), torch.zeros(1, 2, dtype=torch.float64), None, torch.as_tensor(rows), 0
    )
    together = Background().operation(asked).rows
    apart = Marginals(500).operation(asked).rows
    assert torch.equal(together[:, 0], together[:, 1])
    assert abs(float(torch.corrcoef(apart.t())[0, 1])) < 0.2
    assert set(apart[:, 0].tolist()) <= set(rows[:, 0].tolist())
    assert torch.equal(apart, Marginals(500).operation(asked).rows)


def test_conditional_rows_fit_what_is_kept():
    """With the second column a copy of the first, keeping one nearly keeps the other."""
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(np.repeat(rng.random((400, 1)), 2, axis=1))
    x = torch.tensor([[0.8, 0.8]], dtype=torch.float64)
    asked = ExplanationTask(Score(lambda p: p[:, 1]), x, None, rows, 0)
    kept = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    near = Conditional(None, 0.05).operation(asked).values(asked.score, x, kept)
    plain = Background(None).operation(asked).values(asked.score, x, kept)
    assert abs(float(near) - 0.8) < 0.02 and abs(float(plain) - 0.5) < 0.05
    shares = Conditional(None, 0.05).operation(asked)._shares(x, kept[0])
    assert float(shares.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("removal", "text"),
    [
        (lambda: Background(0), "rows=0"),
        (lambda: Background(1.5), "rows=1.5"),
        (lambda: Marginals(-1), "draws=-1"),
        (lambda: Conditional(width=0.0), "width=0.0"),
        (lambda: Conditional(width=float("nan")), "width=nan"),
    ],
)
def test_parameters_are_checked(removal, text, loans):
    table, model = loans
    with pytest.raises(ExplainError, match=text):
        Occlusion(removal=removal()).explain(model, table.iloc[:2], background=table)


@pytest.mark.parametrize("removal", [Background(), Typical(), Marginals(), Conditional()])
@pytest.mark.parametrize("explainer", [Occlusion, ExactShapley, KernelShap])
def test_no_background_is_refused(explainer, removal, loans):
    table, model = loans
    with pytest.raises(ExplainError, match="needs a background"):
        explainer(removal=removal).explain(model, table.iloc[:2])


def test_masks_have_no_derivative():
    operation = Remove(torch.zeros(1, 2, dtype=torch.float64), torch.arange(2), 2)
    with pytest.raises(ExplainError, match="no derivative"):
        operation.gradients(Score(lambda x: x[:, 0]), torch.zeros(1, 2), torch.zeros(1, 2))


EXPLAINERS = (ExactShapley, KernelShap, Occlusion)


@pytest.mark.parametrize("cls", EXPLAINERS)
@pytest.mark.parametrize("structure", ["none", "linear"])
def test_random_stand_ins_are_never_exact(cls, structure):
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(3, 3)), rng.normal(size=(500, 3))
    score = Score(lambda z: z[:, 0] + z[:, 1] * (z[:, 2] if structure == "none" else 1.0))
    if structure == "linear":
        score.ridge = Ridge(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64), 0.0, "identity")
    first, same, second = (
        cls(removal=Marginals(20)).explain(score, x, background=rows, seed=seed) for seed in (3, 3, 4)
    )
    assert not first.exact and first.seed == 3 and first == same
    assert np.abs(first.values - second.values).to_numpy().max() > 1e-3  # another seed, other values
    assert "the error of these draws is not told" in first.notes[0]
    for removal in (Background(20), Background(None), Typical(), Conditional(20)):
        told = cls(removal=removal).explain(score, x, background=rows, seed=3)
        assert told.exact and told.seed is None


@pytest.mark.parametrize("removal", [Background(100), Conditional(100)])
def test_a_part_of_the_background_is_said(removal):
    rows = np.random.default_rng(0).normal(size=(750, 2))
    told = ExactShapley(removal=removal).explain(lambda z: z.prod(1), rows[:2], background=rows)
    assert told.exact and "100 of 750 background rows (values are against these only)" in told.notes[0]
    whole = ExactShapley(removal=removal).explain(lambda z: z.prod(1), rows[:2], background=rows[:100])
    assert "100 of 100 background rows" in whole.notes[0] and "only" not in whole.notes[0]


@pytest.mark.parametrize(
    ("explainer", "text"),
    [
        (lambda: KernelShap(paired="no"), "paired='no', which is not True or False"),
        (lambda: KernelShap(unbiased=1), "unbiased=1, which is not True or False"),
        (lambda: ExactShapley(structure=None), "structure=None, which"),
        (lambda: ExactShapley(pairwise="yes"), "pairwise='yes', which"),
    ],
)
def test_flags_are_flags(explainer, text):
    with pytest.raises(ExplainError, match=text):
        explainer()
