"""Pictures of risk: what is drawn is what was given, and nothing is claimed that is not known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from turnabout.audit.risk.landing_plane import landing_plane
from turnabout.errors import TurnaboutError
from turnabout.render.risk import draw_groups, draw_landing_histogram, draw_landings, draw_risk_curve

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def plane(**changed):
    axis = {"title": "income in $ and $", "unit": "EUR", "levels": []}
    known = {"axes": [axis, axis], "principal": False, "moved": 2, "area": None}
    known |= {"before": [[0, 0], [1, 0]], "after": [[2, 1], [3, 2]], "accepted": [[4, 4]]}
    return known | changed


def lines(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.lines}


def test_people_are_drawn_where_they_stand_and_land():
    ax = draw_landings(plane(), title="They move")
    drawn = lines(ax)
    assert drawn["refused, before"] == [[0, 0], [1, 0]] and drawn["after recourse"] == [[2, 1], [3, 2]]
    assert drawn["accepted already"] == [[4, 4]]
    (arrows,) = [part for part in ax.collections if hasattr(part, "U")]
    assert arrows.U.tolist() == [2, 2] and arrows.V.tolist() == [1, 2]
    assert ax.get_title(loc="left") == "They move" and r"\$" in ax.get_xlabel() and "(EUR)" in ax.get_xlabel()


def test_people_on_one_level_are_drawn_apart_within_the_level():
    axis = {"title": "home", "unit": "", "levels": ["rent", "own"]}
    ax = draw_landings(plane(axes=[plane()["axes"][0], axis], before=[[0, 0]] * 9, after=[[0, 1]] * 9))
    before, after = (np.array(lines(ax)[name]) for name in ("refused, before", "after recourse"))
    assert len(np.unique(before[:, 1])) == 9 and np.abs(before[:, 1]).max() < 0.3
    np.testing.assert_allclose(after[:, 1] - before[:, 1], 1)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["rent", "own"]


def test_the_accepted_area_is_drawn_where_it_is_known():
    area = {"x": [0, 1, 2], "y": [0, 1], "margin": [[-1, 0, 1], [-1, 0, 1]]}
    assert "accepted area" in [text.get_text() for text in draw_landings(plane(area=area)).get_legend().get_texts()]
    nowhere = {"x": [0, 1, 2], "y": [0, 1], "margin": [[-1, -1, -1], [-2, -2, -2]]}
    assert draw_landings(plane(area=nowhere)) is not None
    assert len(draw_landings(plane(before=[], after=[], accepted=[])).lines) == 0


def test_starts_without_ends_are_refused():
    with pytest.raises(TurnaboutError, match="2 people start and 1 arrive"):
        draw_landings(plane(after=[[1, 1]]))


def curve(value=(0.3, 0.2)):
    at = {"compliance": [1.0, 0.0], "metric": "risk_after", "value": value[::-1], "low": [0.1, 0.2], "high": [0.3, 0.4]}
    other = {"compliance": [0.0], "metric": "excess", "value": [9.0], "low": [9.0], "high": [9.0]}
    return pd.concat([pd.DataFrame(at), pd.DataFrame(other)])


def test_the_curve_has_its_band_and_its_break_even_mark():
    ax = draw_risk_curve(curve(), 0.25, 0.5, title="t")
    drawn = lines(ax)
    assert drawn["after recourse"] == [[0, 0.3], [1, 0.2]] and drawn["break-even, 0.50"] == [[0.5, 0.25]]
    assert drawn["before recourse"][0][1] == 0.25
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.1 and band[:, 1].max() == 0.4


@pytest.mark.parametrize("even", [None, -0.5, 2.0])
def test_a_break_even_beyond_all_compliance_is_not_marked(even):
    assert not [label for label in lines(draw_risk_curve(curve(), 0.25, even)) if "break-even" in str(label)]


def test_bounds_have_a_band_and_no_line():
    ax = draw_risk_curve(curve((None, None)), None, None)
    assert np.isnan(np.array(lines(ax)["after recourse"])[:, 1]).all() and "before recourse" not in lines(ax)


@pytest.mark.parametrize(
    ("table", "text"),
    [(pd.DataFrame({"compliance": [1.0]}), "no column 'metric'"), (curve().tail(1), "no metric 'risk_after'")],
)
def test_other_curves_are_refused(table, text):
    with pytest.raises(TurnaboutError, match=text):
        draw_risk_curve(table, 0.2, 0.5)


def groups(*rows):
    return pd.DataFrame(rows, columns=["group", "value", "low", "high"])


def test_groups_have_bars_intervals_and_numbers():
    table = groups(("a", 0.1, 0.05, 0.2), ("b $x$", -0.1, None, None), ("c", None, -0.2, 0.3), ("d", None, None, None))
    ax = draw_groups(table, title="t", xlabel="x")
    assert [bar.get_width() for bar in ax.patches] == [0.1, -0.1, 0, 0]
    (arms,) = ax.collections[-1:]
    ends = [segment[:, 0].tolist() for segment in arms.get_segments()]
    np.testing.assert_allclose(ends, [[0.05, 0.2], [-0.2, 0.3]])
    assert [text.get_text() for text in ax.texts] == ["0.100", "−0.100", "bounds only", "unknown"]
    low, high = ax.get_xlim()
    assert low < -0.2 and high > 0.3


def test_no_groups_are_refused():
    with pytest.raises(TurnaboutError, match="no groups to draw"):
        draw_groups(groups())
    with pytest.raises(TurnaboutError, match="no column 'low'"):
        draw_groups(pd.DataFrame({"group": ["a"], "value": [1.0]}))


def test_the_histogram_draws_its_shares_and_marks():
    ax = draw_landing_histogram([0.25, 0.75], {"mean": 0.6, "beyond": 1.2})
    assert [(bar.get_x(), bar.get_height()) for bar in ax.patches] == [(0.0, 0.25), (0.5, 0.75)]
    assert list(lines(ax)) == ["mean, 0.60"]
    with pytest.raises(TurnaboutError, match="no bins"):
        draw_landing_histogram([], {})


# -- the plane ----------------------------------------------------------------------------------------------------


def posed(features, table, good):
    """A linear question and the answer of the exact method."""
    schema = ta.Schema(features)
    numbers = table[[feature.name for feature in features if isinstance(feature, ta.Number)]]
    fitted = LogisticRegression().fit(numbers, good)

    def model(rows):
        return fitted.predict_proba(rows[list(numbers.columns)])[:, 1]

    problem = ta.Problem(schema, ta.models.wrap(model, schema, 0.5), background=table)
    return problem, ta.methods.LocalSearch().fit(problem).find(table)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 50, 60), "b": rng.integers(0, 50, 60), "c": rng.integers(0, 50, 60)})
    return table, table.a + table.b + table.c > 75


def number(name, **more):
    return ta.Number(name, low=0, high=50, step=1, **more)


def test_a_plane_of_two_features_knows_the_accepted_area(people):
    table, _ = people
    problem, answer = posed(
        (number("a"), number("b", label="Bee", unit="EUR")), table[["a", "b"]], table.a + table.b > 50
    )
    found = landing_plane(problem, answer)
    assert sorted(axis["title"] for axis in found["axes"]) == ["Bee", "a"] and not found["principal"]
    place = {"a": 0, "Bee": 1}
    order = [place[axis["title"]] for axis in found["axes"]]
    first = answer.options[["a", "b"]].to_numpy(dtype=float)[:, order]
    np.testing.assert_allclose(found["after"], first)
    own = answer.people.loc[answer.options.index.get_level_values(0)].to_numpy(dtype=float)[:, order]
    np.testing.assert_allclose(found["before"], own)
    margin, x, y = (np.array(found["area"][part]) for part in ("margin", "x", "y"))
    assert margin.shape == (len(y), len(x)) and margin[0, 0] < 0 < margin[-1, -1]
    assert found["moved"] == len(answer.options) > 5


def test_a_plane_leaves_out_people_beyond_the_limit_and_what_stays(people):
    table, good = people
    problem, answer = posed((number("a"), number("b", moves="fixed"), number("c")), table, good)
    found = landing_plane(problem, answer, most=3, seed=1)
    assert [axis["title"] for axis in found["axes"]] in (["a", "c"], ["c", "a"]) and found["area"] is None
    assert len(found["before"]) == len(found["after"]) == len(found["accepted"]) == 3 < found["moved"]
    assert landing_plane(problem, answer, most=3, seed=1) == found


def test_where_one_column_moves_people_are_shown_by_principal_components(people):
    table, good = people
    problem, answer = posed((number("a"), number("b", moves="fixed"), number("c", moves="fixed")), table, good)
    found = landing_plane(problem, answer)
    assert found["principal"] and found["axes"][0]["title"].startswith("first principal component (")
    x = problem.schema.encode(answer.people).numpy()
    _, _, v = np.linalg.svd(x - x.mean(0), full_matrices=False)
    new = problem.schema.encode(answer.options).numpy() - x.mean(0)
    np.testing.assert_allclose(np.abs(found["after"]), np.abs(new @ v[:2].T), atol=1e-9)


def test_planes_refuse_what_is_no_number_of_people(people):
    table, good = people
    problem, answer = posed((number("a"), number("b"), number("c")), table, good)
    with pytest.raises(TurnaboutError, match="most=0"):
        landing_plane(problem, answer, most=0)
