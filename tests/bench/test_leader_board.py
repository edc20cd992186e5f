"""Intervals, ranks, files and the picture of a board, from lines written by hand."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from turnabout.bench import Board
from turnabout.errors import TurnaboutError
from turnabout.intervals import clopper_pearson
from turnabout.render import draw_board, save_board

N = 400


def line(method, score, seed=0, refine=True, failed="", values=(), wholes=(), **more):
    case = {"protocol": "strict", "data": "town", "model": "net", "people": len(score), "failed": failed}
    measured = {} if failed else {"score": list(score), "found": [1.0] * len(score)} | dict(values)
    cell = {"method": method, "refine": refine, "seed": seed, "values": measured, "wholes": dict(wholes)}
    return case | cell | more


def still(score, seed=0, **more):
    return line("doing nothing", score, seed, refine=False, **more)


def rows(*lines):
    return Board(tuple(lines)).table.set_index(["method", "refined"])


def test_intervals_of_one_seed_are_those_of_a_bootstrap_over_people():
    score = np.random.default_rng(0).normal(1.5, 0.5, N)
    row = rows(still(np.zeros(N)), line("A()", score)).loc["A()", "yes"]
    half = 1.96 * score.std() / np.sqrt(N)
    assert row["score"] == pytest.approx(score.mean())
    assert [row["score_low"], row["score_high"]] == pytest.approx([row["score"] - half, row["score"] + half], abs=0.01)
    assert (row["found_low"], row["found_high"]) == clopper_pearson(N, N)


def test_intervals_over_seeds_are_wider():
    rng = np.random.default_rng(1)
    seeds = [rng.normal(mean, 0.1, N) for mean in (1.0, 1.2, 1.4)]
    row = rows(*(line("A()", score, seed) for seed, score in enumerate(seeds))).loc["A()", "yes"]
    assert row["score"] == pytest.approx(np.mean([s.mean() for s in seeds]))
    assert row["score_low"] < 1.1 and row["score_high"] > 1.3


def test_whole_measures_have_their_own_intervals():
    apart = {"told_apart": [0.8, 0.7, 0.9]}
    first = line("A()", [1.0, 2.0], wholes=apart, seconds=2.0, people_per_second=5.0)
    row = rows(first).loc["A()", "yes"]
    assert row["told_apart":"told_apart_high"].tolist() == [0.8, 0.7, 0.9]
    assert row["seconds"] == 2 and np.isnan(row["seconds_low"])
    row = rows(first, line("A()", [1.0, 2.0], 1, wholes={"told_apart": [0.6, 0.5, 0.7]})).loc["A()", "yes"]
    assert row["told_apart"] == pytest.approx(0.7)
    assert (row["told_apart_low"], row["told_apart_high"]) == (0.0, 1.0)  # Student's, within the scale


def test_people_without_a_measure_are_left_out_of_it():
    row = rows(line("A()", [1.0, 2.0, 3.0], values={"cost": [None, 0.5, 1.5]})).loc["A()", "yes"]
    assert row["cost"] == 1.0 and row["cost_low"] == 0.5 and row["cost_high"] == 1.5


def test_ranks_share_draws_and_places():
    base = np.random.default_rng(2).normal(1, 1, N)
    table = rows(still(base), line("A()", base + 0.01), line("B()", base), line("C()", base - 0.01))
    assert table.index[0] == ("A()", "yes")
    # shared draws: a constant lead is never lost, however wide the intervals of the scores
    assert table.loc[("A()", "yes"), ["rank", "rank_low", "rank_high"]].tolist() == [1, 1, 1]
    assert table.loc[("C()", "yes"), ["rank", "rank_low", "rank_high"]].tolist() == [4, 4, 4]
    assert table.loc[("B()", "yes"), "rank"] == table.loc[("doing nothing", ""), "rank"] == 2.5


def test_a_lead_over_doing_nothing_is_of_the_same_people():
    base = np.random.default_rng(3).normal(1, 1, N)
    table = rows(still(base), line("A()", base + 0.01), still(base + 1, 1), line("A()", base + 1.03, 1))
    lead = table.loc[("A()", "yes"), ["over_nothing", "over_nothing_low", "over_nothing_high"]].tolist()
    assert lead == pytest.approx([0.02, 0.01, 0.03])
    assert np.isnan(table.loc[("doing nothing", ""), "over_nothing"])


def test_who_failed_is_last_in_that_seed():
    lines = [still([0.0, 0.0], seed) for seed in (0, 1)]
    lines += [line("A()", [2.0, 2.0], 0), line("A()", [0.0], 1, failed="RuntimeError: no")]
    lines += [line("B()", [1.0, 1.0], seed) for seed in (0, 1)]
    table = rows(*lines)
    assert table.loc[("A()", "yes"), ["rank", "failed", "seeds"]].tolist() == [2, 1, 1]
    assert table.loc[("B()", "yes"), "rank"] == 1.5


@pytest.fixture
def board():
    lines = (
        still([0.5, 0.7], wholes={"real_plausible": [0.95, 0.9, 1.0]}),
        line("A()", [1.0, 1.5], values={"plausible": [1.0, 0.0]}),
        line("A()", [1.0, 1.1], refine=False),
        line("B()", [0.0], failed="MethodError: needs a slope"),
    )
    return Board(lines)


def test_markdown_and_csv(board, tmp_path):
    csv, page = board.write(tmp_path / "new" / "folder")
    text = page.read_text()
    assert "## town, net, strict protocol, 2 people, 1 seed: score and plausibility" in text
    assert "| A() | yes | 1.0 [1.0, 1.5] | 1.250 [1.000, 1.500] | 0.650 [0.500, 0.800] | 0.50 [0.00, 1.00] |" in text
    assert "| doing nothing |  | 3.0 [3.0, 3.0] | 0.600 [0.500, 0.700] | - | - |" in text
    assert "| real people |  | - | - | - | 0.95 [0.90, 1.00] |" in text
    assert "- town/net, B() (1 cell): MethodError: needs a slope" in text
    assert all(row.count("|") == text.splitlines()[2].count("|") for row in text.splitlines()[2:8] if row)
    read = pd.read_csv(io.StringIO(csv.read_text()), keep_default_na=True)
    assert list(read["method"]) == ["A()", "A()", "doing nothing", "real people"]
    assert read.loc[0, ["score", "score_low", "score_high"]].tolist() == [1.25, 1.0, 1.5]
    assert repr(board) == "Board(4 cells, 1 failed)"


def test_the_picture_shows_the_scores(board, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = draw_board(board.table)
    drawn = {bars.get_label(): bars for bars in ax.containers}
    refined = drawn["refined"].lines[0]
    assert refined.get_xdata().tolist() == [1.25] and refined.get_ydata().tolist() == [pytest.approx(-0.14)]
    (segments,) = (bar.get_segments() for bar in drawn["refined"].lines[2])
    assert segments[0][:, 0].tolist() == [1.0, 1.5]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["A", "doing nothing"]
    dotted = [each for each in ax.lines if each.get_linestyle() == ":"]
    assert [each.get_xdata()[0] for each in dotted] == [pytest.approx(0.6)]
    assert ax.get_title(loc="left") == "A scores highest on town, net (strict protocol)"
    matplotlib.pyplot.close(ax.figure)
    assert save_board(board.table, tmp_path / "board.png").stat().st_size > 5000
    assert save_board(board.table.iloc[:0], tmp_path / "empty.png").is_file()
    two = pd.concat([board.table, board.table.assign(data="city")])
    with pytest.raises(TurnaboutError, match="not of one data set"):
        draw_board(two)
    with pytest.raises(TurnaboutError, match="no column 'score_low'"):
        draw_board(board.table.drop(columns="score_low"))
    assert save_board(two, tmp_path / "two.png").is_file()


def test_seeds_in_which_a_method_failed_do_not_change_its_interval():
    scores = [np.zeros(N), np.zeros(N), np.full(N, 1.2)]
    there = [line("A()", score, seed) for seed, score in enumerate(scores)]
    nothing = [still(np.zeros(N), seed) for seed in range(5)]
    lost = [line("A()", np.zeros(N), seed, failed="out of order") for seed in (3, 4)]
    row = rows(*nothing, *there, *lost).loc["A()", "yes"]
    assert row["score"] == pytest.approx(0.4) and row["failed"] == 2
    assert (row["score_low"], row["score_high"]) == pytest.approx((0.0, 1.2))  # the seeds that are there, 0 to 1.2
    assert (row["over_nothing_low"], row["over_nothing_high"]) == pytest.approx((0.0, 1.2))


def test_a_seed_in_which_nobody_has_a_score_does_not_count_for_ranks():
    lines = [still(np.zeros(N)), line("A()", np.ones(N)), line("B()", np.full(N, 0.5))]
    lines += [line(name, np.zeros(N), 1, failed="not posed") for name in ("doing nothing", "A()", "B()")]
    table = rows(*lines)["rank"]
    assert table.loc["A()", "yes"] == 1 and table.loc["B()", "yes"] == 2


def test_bars_in_names_leave_the_table_whole():
    text = Board((still([0.0, 1.0]), line("A(f='a|b')", [1.0, 1.0]))).to_markdown()
    assert "A(f='a\\|b')" in text
