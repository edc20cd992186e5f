"""Whose rows are whose in the two protocols, and the command line on German credit."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from command_line import turnabout
from turnabout.bench import protocols
from turnabout.bench.cell_measures import TIMES
from turnabout.bench.protocols import PROTOCOLS, free_schema
from turnabout.bench.unseen_score import UnseenScore

GRID = """
models: [logistic]
methods: [ExactLinear]
people: 12
retrained: 1
options: 1
"""


@pytest.fixture(scope="module")
def strict():
    """The case, and the people that the judges were fitted on."""
    fitted = []
    made = UnseenScore.of.__func__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            UnseenScore,
            "of",
            classmethod(lambda cls, problem, people, *rest: fitted.append(people) or made(cls, problem, people, *rest)),
        )
        case = PROTOCOLS["strict"].pose("german", "logistic", 3, 25, 1)
    return case, fitted[0]


def test_strict_parts_share_nobody(strict):
    case, judging = strict
    people = ta.datasets.load("german").people
    rows = {tuple(row) for row in case.problem.background.itertuples(index=False)}
    assert len(case.problem.background) == 500 and len(judging) == 250 and len(case.people) == 25
    assert not set(case.people.index) & set(judging.index)
    for part in (case.people, judging):
        assert not rows & {tuple(row) for row in people.loc[part.index].itertuples(index=False)}
    assert (case.problem.judge(case.people) < 0).all() and len(case.retrained) == 1
    assert list(case.groups.index) == list(case.people.index)


def test_the_score_of_people_without_an_option_is_that_of_their_own_row(strict):
    case, _ = strict
    method = ta.methods.ExactLinear().fit(case.problem)
    answer = method.find(case.people, query_limit=1, time_limit=60)
    none = ta.bench.entrants.nothing_done(case.problem, case.people)
    (judge,) = case.judges
    still = judge(none)
    assert (still["cost_share"] == 0).all() and list(still.index) == list(case.people.index)
    good = case.judges[0].forest.predict_proba(case.people)[:, 1] > 0.5
    assert still["unseen_validity"].tolist() == good.astype(float).tolist()
    found = judge(answer)
    has = answer.status == "FOUND"
    first = answer.options.xs(0, level="option")["cost"] / len(case.problem.schema)
    assert np.allclose(found.loc[first.index, "cost_share"], first)
    pd.testing.assert_frame_equal(found[~has], still[~has])
    assert np.allclose(found["score"], found["unseen_validity"] + found["unseen_inlier"] - found["cost_share"])


def test_the_paper_lets_everything_change_but_race_and_sex(monkeypatch):
    data = ta.datasets.load("german")
    seen = []
    forest = protocols.forest_of_outcomes
    monkeypatch.setattr(protocols, "forest_of_outcomes", lambda *parts: seen.append(len(parts[1])) or forest(*parts))
    case = PROTOCOLS["paper"].pose("german", "logistic", 0, 10, 0)
    assert seen == [1000]  # the forest has seen everybody
    moves = {f.name: f.moves for f in case.problem.schema}
    assert {name for name, way in moves.items() if way == "fixed"} <= {"race", "sex"}
    duration, train = case.problem.schema["duration"], case.problem.background["duration"]
    assert (duration.low, duration.high) == (train.min(), train.max())
    assert len(case.problem.background) == 750
    labels = case.problem.labels.numpy()
    assert 0.5 < labels.mean() < 0.9 and (labels != data.accepted.to_numpy()[:750]).any()  # outcomes are drawn anew
    free = free_schema(data, data.people.assign(duration=12))
    assert free["duration"].moves == "fixed"  # nothing to choose from


def test_the_command_line(tmp_path):
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(GRID)
    pytest.importorskip("matplotlib")
    first = turnabout("bench", grid, "--out", out)
    assert first.returncode == 0, first.stderr
    assert first.stdout == (out / "board.md").read_text()
    assert "| ExactLinear() | yes |" in first.stdout and "| doing nothing |" in first.stdout
    assert "board.csv" in first.told and (out / "board.png").stat().st_size > 5000
    assert len((out / "cells.jsonl").read_text().splitlines()) == 3
    table = pd.read_csv(out / "board.csv")
    second = turnabout("bench", grid, "--out", tmp_path / "again")
    assert second.returncode == 0
    clock = [f"{name}{end}" for name in TIMES for end in ("", "_low", "_high")]
    again = pd.read_csv(tmp_path / "again" / "board.csv")
    pd.testing.assert_frame_equal(again.drop(columns=clock), table.drop(columns=clock))  # same seed, same board
    assert turnabout("bench", grid, "--out", out).stdout == first.stdout  # nothing is measured again, the clock neither


def test_the_command_line_refuses(tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text("data: [germany]")
    done = turnabout("bench", grid)
    assert done.returncode == 1 and "did you mean 'german'" in done.told and not done.stdout
    (tmp_path / "file").write_text("")
    assert turnabout("bench", grid, "--out", tmp_path / "file").returncode == 2
    assert turnabout("bench", grid, "--jobs", 0).returncode == 2


def test_the_command_fails_where_no_method_was_measured(tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text("models: [net]\nmethods: [ExactLinear]\npeople: 2\noptions: 1\nretrained: 0\n")
    done = turnabout("bench", grid)
    assert done.returncode == 1 and "no method was measured" in done.told and "doing nothing" in done.stdout


def test_without_matplotlib_the_board_is_written_without_its_figure(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(GRID)
    done = turnabout("bench", grid, "--out", out)
    assert done.returncode == 0 and "no figure is drawn: pictures need matplotlib" in done.told
    assert sorted(file.name for file in out.iterdir()) == ["board.csv", "board.md", "cells.jsonl"]
