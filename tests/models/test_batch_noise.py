"""Models that answer otherwise about a row alone than among others, and the margin that options keep from that."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta
from turnabout.models.batch_noise import round_up
from turnabout.models.derived import both

D = 12
LEVEL = -0.5  # about the median score


def background() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({f"f{i}": np.round(rng.normal(50, 20, 300), 2) for i in range(D)})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return background()


@pytest.fixture(scope="module")
def accepted(table: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(1)
    return ((table - 50) / 20).to_numpy() @ rng.normal(size=D) + rng.normal(size=len(table)) > 0.5


@pytest.fixture(scope="module")
def schema(table: pd.DataFrame) -> ta.Schema:
    free = ("f0", "f1", "f2")
    moves = {name: "free" if name in free else "fixed" for name in table.columns}
    return ta.Schema(tuple(ta.Number(n, low=-50, high=150, decimals=7, moves=moves[n]) for n in table.columns))


def logistic(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def score_in_float32(rows: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(D, 64)).astype(np.float32) / 5, rng.normal(size=64).astype(np.float32)
    return logistic(np.maximum(rows.to_numpy(dtype=np.float32) @ first, 0) @ second / 50 - np.float32(LEVEL))


def planted(eps: float):
    """A function whose answers rise by eps in batches of an odd size, and fall by 2 eps for a row alone."""

    def score(rows: pd.DataFrame) -> np.ndarray:
        z = (rows.to_numpy(dtype=float).mean(1) - 53) / 5
        return logistic(z) + eps * (len(rows) % 2) - 3 * eps * (len(rows) == 1)

    return score


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(D, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).requires_grad_(False)


def pipeline(table: pd.DataFrame, accepted: np.ndarray) -> object:
    mlp = MLPClassifier((32,), max_iter=15, random_state=0)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        return make_pipeline(StandardScaler(), mlp).fit(table.astype(np.float32), accepted)


def in_company(ask, rows: pd.DataFrame) -> np.ndarray:
    """The lowest score of each row: alone, and in shuffled batches of several sizes."""
    low = np.concatenate([ask(rows.iloc[i : i + 1]) for i in range(len(rows))]).astype(float)
    for seed, size in enumerate((2, 3, 7, 16, 64, len(rows))):
        order = np.random.default_rng(seed).permutation(len(rows))
        for places in np.array_split(order, max(1, len(rows) // size)):
            low[places] = np.minimum(low[places], ask(rows.iloc[places]))
    return low


def refused(ask, answer: ta.Recourse, cut: float) -> int:
    """How many options the original refuses in some company."""
    rows = answer.options[list(answer.features)].reset_index(drop=True)
    assert len(rows) > 10
    return int((in_company(ask, rows) < cut).sum())


def case(name: str, table: pd.DataFrame, accepted: np.ndarray, schema: ta.Schema):
    """A wrapped model, how to ask the original, and the least score that is a yes."""
    if name == "network":
        net = network()
        net[-1].weight *= 30
        net[-1].bias -= net(schema.encode(table).float()).median()
        ask = lambda rows: net(schema.encode(rows).float())[:, 0].numpy()  # noqa: E731
        return ta.models.wrap(net, schema, background=table), ask, 0.0
    if name == "pipeline":
        fitted = pipeline(table, accepted)
        ask = lambda rows: fitted.predict_proba(rows.astype(np.float32))[:, 1]  # noqa: E731
        return ta.models.wrap(fitted, schema, background=table.astype(np.float32), threshold=0.5), ask, 0.5
    ask = {"float32": score_in_float32, "planted": planted(1e-4)}[name]
    return ta.models.wrap(ask, schema, background=table), ask, 0.5


def find(model: ta.models.Model, people: pd.DataFrame) -> ta.Recourse:
    """Options walked back to the boundary, as near as the model's own margin lets them come."""
    problem = ta.Problem(model.schema, model, background=background())
    return ta.methods.NearestRow().fit(problem).find(people, options=2)


@pytest.mark.parametrize("name", ["network", "pipeline", "float32", "planted"])
def test_no_option_is_refused_in_any_company(name, table, accepted, schema):
    model, ask, cut = case(name, table, accepted, schema)
    people = table.iloc[:30].astype(np.float32 if name == "pipeline" else float)
    answer = find(model, people)
    assert refused(ask, answer, cut) == 0
    assert model.noise >= 1e-6
    assert model.alone or name != "planted"  # in float32 it depends on the processor which rows show a difference
    assert (answer.options.margin >= model.noise).all()


def test_the_oracle_sees_a_fault(table, accepted, schema):
    model, ask, cut = case("planted", table, accepted, schema)
    model._judge.noise, model._judge.alone = 1e-12, False
    assert refused(ask, find(model, table.iloc[:30]), cut) > 0


def test_margins_that_depend_on_nothing_else_stay_as_they_were(table, accepted, schema):
    for model in (LogisticRegression(max_iter=200).fit(table, accepted), lambda t: logistic(t.f0 / 20 - 2)):
        wrapped = ta.models.wrap(model, schema, background=table)
        assert (wrapped.noise, wrapped.alone) == (1e-12, False)
        assert not any("batch" in note for note in wrapped.notes)
    assert ta.models.wrap(network().double(), schema).noise == 1e-12


def test_measuring_gives_the_same_number_again_and_says_so(table, schema):
    one, two = (ta.models.wrap(planted(1e-4), schema, background=table) for _ in range(2))
    assert one.noise == two.noise == 2e-3  # ten times what was measured
    assert "margins depend on the other rows of a batch, by up to 0.0002" in one.notes[-1]
    assert one.shifted(0.1).alone and one.shifted(0.1).noise == one.noise
    assert both(one, ta.models.wrap(lambda t: logistic(t.f0), schema)).alone


def test_a_model_that_compares_rows_with_each_other_is_told_apart(table, schema):
    with pytest.warns(UserWarning, match="answers otherwise about a row when other rows"):
        ta.models.wrap(lambda t: logistic(t.f0 - t.f0.mean()), schema, background=table)


def test_measuring_leaves_out_rows_on_which_the_model_fails(table, schema):
    def fragile(rows):
        if (rows.f0 > 90).any():
            raise RuntimeError("too much")
        return planted(1e-4)(rows)

    assert (table.f0 > 90).sum() in range(1, 60)
    assert ta.models.wrap(fragile, schema, background=table).alone

    def down(rows):
        raise RuntimeError("no answer")

    assert ta.models.wrap(down, schema, background=table).noise == 1e-12


def test_a_remote_model_is_asked_little(table, schema):
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return logistic(rows.f0.to_numpy() / 20 - 2)

    ta.models.wrap(ta.models.Remote(counted), schema, background=table)
    assert sum(asked) <= 32 and len(asked) <= 8
    asked.clear()
    ta.models.wrap(counted, schema, background=table)
    assert sum(asked) <= 200
    calls = []

    def down(rows):
        calls.append(len(rows))
        raise RuntimeError("no answer")

    ta.models.wrap(ta.models.Remote(down, wait=100.0), schema, background=table)  # and nobody waits
    assert len(calls) == 1


def test_labels_without_scores_are_asked_for_alone(table, schema):
    """Nothing tells how near the boundary is, so options are asked about one by one."""
    ask = lambda rows: (planted(1e-2)(rows) >= 0.5).astype(float)  # noqa: E731
    model = ta.models.wrap(ask, schema, background=table)
    assert model.alone and model.noise == 1e-12
    answer = find(model, table.iloc[:4])
    rows = answer.options[list(schema.names)]
    assert len(rows) and all(ask(rows.iloc[i : i + 1])[0] == 1 for i in range(len(rows)))


def test_people_on_the_boundary_are_accepted_only_if_they_are_so_alone(table, schema):
    ask = planted(1e-4)
    model = ta.models.wrap(ask, schema, background=table)
    at = np.linspace(52.999, 53.002, 13)
    people = pd.DataFrame(np.repeat(at[:, None], D, axis=1), columns=table.columns)
    alone = np.concatenate([ask(people.iloc[i : i + 1]) for i in range(len(people))])
    together = ask(people)
    assert ((alone < 0.5) & (together >= 0.5)).any()
    status = find(model, people).status
    assert ((status == ta.Status.ACCEPTED).to_numpy() == ((alone >= 0.5) & (together >= 0.5))).all()


def test_changing_answers_are_still_refused(table, schema):
    rng = np.random.default_rng(0)
    model = ta.models.wrap(lambda t: rng.random(len(t)), schema, background=table)
    assert model.noise == 1e-12
    with pytest.raises(ta.TurnaboutError, match="answers change between calls"):
        find(model, table.iloc[:80])


@pytest.mark.parametrize(("dtype", "noise"), [(torch.float64, 1e-12), (torch.float32, 1e-6), (torch.float16, 8 / 1024)])
def test_a_module_is_asked_in_its_own_precision(dtype, noise, table, schema):
    seen = []
    net = network().to(dtype)
    net[0].register_forward_hook(lambda module, rows, out: seen.append(rows[0].dtype))
    model = ta.models.wrap(net, schema, background=table)
    assert model.noise >= noise
    seen.clear()
    margin = model.judge(table.iloc[:5])
    assert set(seen) == {dtype}
    assert (margin == net(schema.encode(table.iloc[:5]).to(dtype))[:, 0].double().numpy()).all()


def test_the_coarsest_layer_of_a_module_counts(schema):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(D, 8).double(), torch.nn.Linear(8, 1)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)).float())

    assert ta.models.wrap(Mixed().requires_grad_(False), schema).noise >= 1e-6


def test_proofs_allow_for_the_distance_of_the_compiled_form(table, schema):
    """The compiled form computes in float64: what it proves holds for the original only beyond the difference."""
    net = network()
    net[-1].weight *= 1e4
    net[-1].bias -= net(schema.encode(table).float()).median()
    model = ta.models.wrap(net, schema, background=table)
    x = schema.encode(table)
    margin = model.margin(x).numpy()
    near = np.abs(margin) <= np.median(np.abs(margin))
    gap = np.abs(margin - model.judge(table))[near].max()
    assert model.compiled and 1e-6 < gap < model.noise


@pytest.mark.parametrize(("value", "up"), [(1e-6, 1e-6), (1.1e-6, 2e-6), (3e-5, 5e-5), (0.51, 1.0), (5e-4, 5e-4)])
def test_rounding_up(value, up):
    assert round_up(value) == pytest.approx(up, rel=1e-12)
