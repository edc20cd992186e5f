"""Shortcuts by structure give what enumeration over raw rows gives: sums, logistic scores, nets, trees."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.score import Net, Ridge, Score
from turnabout.explain.shapley import leaf_games
from turnabout.explain.shapley.exact import PROBES, ExactShapley, structured_shapley
from turnabout.explain.shapley.games import coalitions, shapley
from turnabout.explain.shapley.kernel import KernelShap
from turnabout.explain.shapley.leaf_games import LeafGames
from turnabout.explain.shapley.occlusion import Occlusion
from turnabout.explain.shapley.remove import Background
from turnabout.explain.shapley.values import Mixture, coalition_values
from turnabout.models.model import Terms


def table(n=300, seed=0, missing=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.normal(40, 15, n).round(1),
            "years": rng.integers(0, 30, n),
            "job": rng.choice(["clerk", "nurse", "smith", "baker"], n),
            "owner": rng.choice(["no", "yes"], n),
            "debt": rng.exponential(10, n).round(1),
        }
    )
    if missing:
        frame.loc[rng.random(n) < 0.3, "debt"] = np.nan
    good = frame["income"] / 20 + (frame["job"] == "nurse") * frame["years"] / 10 - frame["debt"].fillna(30) / 8
    return frame, good + (frame["owner"] == "yes") * (frame["income"] > 40) > 1.5


def columns(onehot):
    coded = OneHotEncoder(sparse_output=False) if onehot else OrdinalEncoder()
    return make_column_transformer((coded, ["job", "owner"]), (StandardScaler(), ["income", "years", "debt"]))


CASES = {
    "logistic": (True, LogisticRegression(), False),
    "net": (True, MLPClassifier((6, 4), max_iter=60, random_state=0), False),
    "shallow net": (True, MLPClassifier((5,), max_iter=60, random_state=0), False),
    "tree": (False, DecisionTreeClassifier(max_depth=4, random_state=0), False),
    "forest": (False, RandomForestClassifier(8, random_state=0), False),
    "boosting": (False, GradientBoostingClassifier(n_estimators=12, random_state=0), False),
    "boosting with missing": (False, HistGradientBoostingClassifier(max_iter=15, random_state=0), True),
}


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request):
    onehot, classifier, missing = CASES[request.param]
    people, good = table(missing=missing)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(columns(onehot), classifier).fit(people, good)
    model = ta.models.wrap(pipeline, ta.Schema.infer(people), background=people)
    assert model.compiled, model.notes
    return request.param, model, people


def mixture(model, people):
    x = model.schema.encode(people)
    return Mixture(x[:6], x[100:120], model.schema.feature_of, len(model.schema))


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_values_of_coalitions_are_those_of_the_raw_rows(case, output):
    _, model, people = case
    mix, masks = mixture(model, people), coalitions(len(model.schema))
    plain = Score(Score.of(model, output).function)
    due = by_rows(plain.function, mix, masks)
    assert (coalition_values(plain, mix, masks) - due).abs().max() < 1e-12
    score = Score.of(model, output)
    found = coalition_values(score, mix, masks)
    assert (found - due).abs().max() < 1e-10
    assert plain.asked == 6 * 20 * len(masks)


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_shapley_by_structure_is_shapley_by_enumeration(case, output):
    name, model, people = case
    given = {"background": people.iloc[100:140], "output": output}
    quick = ExactShapley().explain(model, people.iloc[:8], **given)
    assert quick.exact and quick.gap.abs().max() < 1e-9
    mix = Mixture(coded(model, people[:8]), coded(model, people[100:140]), model.schema.feature_of, len(model.schema))
    due = shapley(by_rows(Score.of(model, output).function, mix, coalitions(len(model.schema))))
    np.testing.assert_allclose(quick.values, due, atol=1e-10)
    by_structure = any("by the structure" in note for note in quick.notes)
    linear = name == "logistic" and output == "margin"
    trees = name in ("tree", "forest") or (name.startswith("boosting") and output == "margin")
    assert by_structure == (linear or trees)


def by_rows(function, mix, masks):
    """The definition: every combination of a person, a mask and a row is written out and asked."""
    keep = masks[None, :, None, mix.feature_of] > 0.5
    rows = torch.where(keep, mix.x[:, None, None, :], mix.rows)  # (n, s, b, d)
    return function(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape[:-1]).mean(-1)


def coded(model, people):
    return model.schema.encode(people)


def test_kernel_shap_uses_the_same_values(case):
    _, model, people = case
    given = {"background": people.iloc[100:140], "output": "probability"}
    exact = ExactShapley().explain(model, people.iloc[:8], **given)
    whole = KernelShap(2 ** len(model.schema) - 2).explain(model, people.iloc[:8], **given)
    np.testing.assert_allclose(whole.values, exact.values, atol=1e-10)


def test_additive_scores_with_bends():
    rng = np.random.default_rng(0)
    terms = Terms(
        torch.as_tensor(rng.standard_normal(5)), 0.3, torch.tensor([0, 0, 3]), torch.tensor([0.2, 0.6, 0.5]).double(),
        torch.tensor([1.0, -3.0, 2.0]).double(),
    )  # fmt: skip
    x, rows = torch.as_tensor(rng.random((4, 5))), torch.as_tensor(rng.random((30, 5)))
    mix = Mixture(x, rows, torch.arange(5), 5)
    found, name = structured_shapley(Score(terms.margin, terms=terms), mix)
    assert name == "additive"
    assert (found - shapley(by_rows(terms.margin, mix, coalitions(5)))).abs().max() < 1e-12


def test_linear_scores_of_many_features():
    rng = np.random.default_rng(0)
    w = torch.as_tensor(rng.standard_normal(300))
    score = Score(lambda x: x @ w, ridge=Ridge(w, 0.0, "identity"))
    x, background = rng.standard_normal((3, 300)), rng.standard_normal((50, 300))
    answer = ExactShapley().explain(score, x, background=background)
    np.testing.assert_allclose(answer.values, w.numpy() * (x - background.mean(0)), atol=1e-10)
    assert "by the structure: linear." in answer.notes


def test_trees_of_many_features():
    """40 features cannot be enumerated; removing one leaf's features by hand can."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.random((200, 40)).round(3), columns=[f"f{j}" for j in range(40)])
    good = people["f3"] + people["f7"] * people["f9"] > 0.7
    boost = GradientBoostingClassifier(n_estimators=15, max_depth=3, random_state=0).fit(people, good)
    model = ta.models.wrap(boost, ta.Schema.infer(people), background=people)
    answer = ExactShapley().explain(model, people.iloc[:5], background=people.iloc[50:90])
    assert answer.exact and answer.gap.abs().max() < 1e-9
    unused = [name for name, used in zip(people.columns, boost.feature_importances_, strict=True) if used == 0]
    assert unused and (answer.values[unused] == 0).all().all()
    sampled = KernelShap(3000).explain(model, people.iloc[:5], background=people.iloc[50:90])
    z = ((sampled.values - answer.values) / sampled.errors.where(sampled.errors > 1e-12)).to_numpy()
    assert np.nanmax(np.abs(z)) < 5


def test_rows_between_the_levels_of_a_category_are_asked_one_by_one(case):
    _, model, people = case
    if not hasattr(model, "forest"):
        pytest.skip("no trees")
    x = model.schema.encode(people)[:4].clone()
    job = model.schema.slices[model.schema.index("job")]
    x[:, job] = 0.25
    mix = Mixture(x, model.schema.encode(people)[50:60], model.schema.feature_of, len(model.schema))
    masks = coalitions(len(model.schema))
    due = by_rows(model.margin, mix, masks)
    assert (coalition_values(Score.of(model), mix, masks) - due).abs().max() < 1e-10
    found = structured_shapley(Score.of(model), mix)
    assert found is None or (found[0] - shapley(due)).abs().max() < 1e-10


def test_a_structure_that_is_not_the_score_is_not_used():
    x = torch.as_tensor(np.random.default_rng(0).random((3, 2)))
    mix = Mixture(x, x, torch.arange(2), 2)
    wrong = torch.ones(2, dtype=torch.float64)
    layers = ((wrong.unsqueeze(0), wrong[:1]), (wrong[:1].unsqueeze(0), wrong[:1]))
    for score in (
        Score(lambda p: p.prod(1), ridge=Ridge(wrong, 0.0, "identity")),
        Score(lambda p: p.prod(1), ridge=Ridge(wrong, 0.0, "logit")),
        Score(lambda p: p.prod(1), net=Net(layers, "identity")),
    ):
        assert structured_shapley(score, mix) is None
        due = by_rows(lambda p: p.prod(1), mix, coalitions(2))
        assert (coalition_values(score, mix, coalitions(2)) - due).abs().max() < 1e-14


def test_leaves_know_what_fails(case):
    _, model, people = case
    if not hasattr(model, "forest"):
        pytest.skip("no trees")
    x = model.schema.encode(people)
    games = LeafGames.of(model.forest, model.schema.feature_of, len(model.schema))
    assert (games.scores(x) - model.margin(x)).abs().max() < 1e-9
    assert LeafGames.of(model.forest, torch.arange(len(model.schema.feature_of)) + 1, 99) is None


@pytest.mark.parametrize(
    ("explainer", "d", "text"),
    [
        (lambda: ExactShapley(), 17, "17 features have 2\\^17 coalitions"),
        (lambda: ExactShapley(limit=2), 3, "limit is 2"),
        (lambda: ExactShapley(limit=23), 3, "limit=23"),
        (lambda: ExactShapley(limit=0), 3, "limit=0"),
        (lambda: ExactShapley(), 0, "needs a background"),
    ],
)
def test_what_is_too_much_is_refused(explainer, d, text):
    x = np.zeros((2, max(d, 3)))
    with pytest.raises(ExplainError, match=text):
        explainer().explain(lambda p: p.prod(1), x, background=x if d else None)


def test_sixteen_features_are_enumerated():
    rng = np.random.default_rng(0)
    x, background = rng.random((2, 16)), rng.random((2, 16))
    answer = ExactShapley().explain(lambda p: p.prod(1) + p[:, 0] * p[:, 15], x, background=background)
    assert answer.gap.abs().max() < 1e-12 and answer.asked == 2 * 2 * 2**16


def test_masks_are_taken_in_pieces(monkeypatch):
    """Memory is bounded: however small the pieces, the values are the same."""
    from turnabout.explain.shapley import exact
    from turnabout.explain.shapley import values as module

    rng = np.random.default_rng(0)
    x, background = rng.random((5, 6)), rng.random((7, 6))
    layers = tuple(
        (torch.as_tensor(rng.standard_normal(s)), torch.as_tensor(rng.standard_normal(s[:1]))) for s in ((4, 6), (1, 4))
    )
    net = Score(
        lambda p: torch.relu(p @ layers[0][0].t() + layers[0][1]) @ layers[1][0][0] + layers[1][1],
        net=Net(layers, "identity"),
    )
    plain = Score(net.function)
    due = ExactShapley().explain(plain, x, background=background).values
    for name, most in (("HELD", 50), ("ROWS", 40), ("BLOCK", 30)):
        monkeypatch.setattr(module, name, most)
    monkeypatch.setattr(exact, "MASKS", 10)
    for score in (net, plain):
        np.testing.assert_allclose(ExactShapley().explain(score, x, background=background).values, due, atol=1e-12)


def test_scores_in_which_no_three_features_interact():
    rng = np.random.default_rng(0)
    q, x, background = torch.as_tensor(rng.standard_normal((30, 30))), rng.random((3, 30)), rng.random((9, 30))

    def quadratic(points):
        return torch.einsum("ni,ij,nj->n", points, q, points)

    answer = ExactShapley(pairwise=True).explain(quadratic, x, background=background)
    assert answer.gap.abs().max() < 1e-9 and answer.asked == 3 * 9 * (2 * 30 + 2 + 32)
    assert not answer.exact and answer.seed is None and "no proof" in answer.notes[-1]  # some coalitions are no proof
    q, x, background = q[:8, :8], x[:, :8], background[:, :8]  # few enough to enumerate
    due = ExactShapley().explain(quadratic, x, background=background)
    part = ExactShapley(pairwise=True).explain(quadratic, x, background=background)
    np.testing.assert_allclose(part.values, due.values, atol=1e-10)
    with pytest.raises(ExplainError, match="three or more features interact"):
        ExactShapley(pairwise=True).explain(lambda p: p[:, :3].prod(1), x, background=background)


def test_a_trio_that_no_probe_meets_is_found_by_the_sum():
    m = 50
    probes = np.random.default_rng(0).integers(0, 2, (PROBES, m))  # as they are drawn
    trios = np.array(list(combinations(range(m), 3)))
    unmet = trios[(probes[:, trios].sum(2) < 2).all(0)]
    assert len(unmet)
    with pytest.raises(ExplainError, match="three or more features interact"):
        ExactShapley(pairwise=True).explain(
            lambda x: x[:, unmet[0]].prod(1), np.ones((1, m)), background=np.zeros((1, m))
        )


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_an_offset_hides_no_interaction(offset):
    def trio(x):
        return offset + 5 * x[:, 0] * x[:, 1] * x[:, 2]

    with pytest.raises(ExplainError, match="three or more features interact"):
        ExactShapley(pairwise=True).explain(trio, np.ones((1, 3)), background=np.zeros((1, 3)))
    pair = ExactShapley(pairwise=True).explain(
        lambda x: offset + 5 * x[:, 0] * x[:, 1], np.ones((1, 3)), background=np.zeros((1, 3))
    )
    np.testing.assert_allclose(pair.values, [[2.5, 2.5, 0.0]], atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_a_wrong_structure_is_found_out_under_an_offset_and_at_people_alone(offset):
    """Rows of zeros agree with the claimed structure; the person does not."""
    claimed = Ridge(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), offset, "identity")
    score = Score(lambda x: offset + x[:, 0] + 3 * x[:, 1] * x[:, 2], ridge=claimed)
    for explainer in (ExactShapley(), ExactShapley(structure=False), Occlusion()):
        answer = explainer.explain(score, np.ones((1, 3)), background=np.zeros((1, 3)))
        due = [1.0, 3.0, 3.0] if isinstance(explainer, Occlusion) else [1.0, 1.5, 1.5]
        np.testing.assert_allclose(answer.values, [due], atol=1e-5)


def test_leaves_are_taken_in_pieces(monkeypatch):
    """However few rows and masks are held at a time, the values are the same."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((200, 4)), columns=list("abcd"))
    yes = table["a"] * table["b"] + table["c"] > 0.8
    schema = ta.Schema(tuple(ta.Number(name, 0, 1) for name in "abcd"))
    model = ta.models.wrap(GradientBoostingClassifier(n_estimators=10, random_state=0).fit(table, yes), schema)
    explainers = (ExactShapley(removal=Background(None)), KernelShap(samples=12, removal=Background(None)))
    asked = [(e, output) for e in explainers for output in ("margin", "probability")]
    due = [e.explain(model, table[:6], background=table[:50], output=output).values for e, output in asked]
    monkeypatch.setattr(leaf_games, "HELD", 300)  # a few rows of about 70 leaves
    for (e, output), expected in zip(asked, due, strict=True):
        got = e.explain(model, table[:6], background=table[:50], output=output).values
        np.testing.assert_allclose(got, expected, atol=1e-12)
