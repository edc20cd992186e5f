"""Running a grid: numbers by hand, resuming, failing, methods of anyone's own."""

from __future__ import annotations

import json
import random
import time

import pandas as pd
import pytest

import turnabout as ta
from turnabout.bench import Grid, grid_run, run
from turnabout.bench.cell_measures import TIMES
from turnabout.errors import BenchError

OWN = """
import torch
import turnabout as ta
from turnabout.core import Proposal

class UpTo(ta.Method):
    \"\"\"Moves the income to a level.\"\"\"
    def __init__(self, level: float = 0.9):
        self.level = level
    def _search(self, x):
        x_new = x.clone()
        x_new[:, 0] = self.level
        return Proposal(x_new.unsqueeze(1))

class Raises(UpTo):
    def _search(self, x):
        raise RuntimeError("out of order")

class Ends(UpTo):
    def _search(self, x):
        import os
        os._exit(3)

class Leaves(UpTo):
    def _search(self, x):
        raise SystemExit(3)

class Single(UpTo):
    def _search(self, x):
        x_new = x.float().clone()
        x_new[:, 0] = self.level
        return Proposal(x_new.unsqueeze(1))

class Ages(UpTo):
    def _search(self, x):
        return Proposal((x + 0.1).unsqueeze(1))

class Flat(UpTo):
    def _search(self, x):
        return Proposal(x)

class Long(UpTo):
    def _search(self, x):
        import time
        end = time.monotonic() + 20
        while not self.run.expired and time.monotonic() < end:
            time.sleep(0.01)
        return super()._search(x)

class NoMethod:
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with methods of somebody else."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "own_methods_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(folder)
    return "own_methods_of_a_test"


def small(**more):
    return Grid(**({"protocol": "lending", "methods": ["LocalSearch"], "options": 1, "retrained": 2} | more))


def lasting(board):
    """The board without the clock."""
    clock = [f"{name}{end}" for name in TIMES for end in ("", "_low", "_high")]
    return board.table.drop(columns=clock)


def by_method(board):
    return board.table.set_index(["method", "refined"])


def test_numbers_by_hand(lending):
    table = by_method(run(small()))
    found, still = table.loc["LocalSearch()", "yes"], table.loc["doing nothing", ""]
    # incomes 1 and 3 go to 5: L1 costs 0.4 and 0.2 of a range of 10; one retrained model of two asks for 6
    assert found[["found", "valid", "cost", "changes", "retrained", "violations"]].tolist() == pytest.approx(
        [1, 1, 0.3, 1, 0.5, 0]
    )
    # the unseen forest asks for 6: 0 + 1 - cost / 2 features
    assert found[["unseen_validity", "unseen_inlier", "score"]].tolist() == pytest.approx([0, 1, 0.85])
    assert found[["score_low", "score_high"]].tolist() == pytest.approx([0.8, 0.9])  # one of the two, twice
    assert still[["found", "valid", "cost", "changes", "retrained", "score"]].tolist() == [0, 0, 0, 0, 0, 1]
    assert still["found_low":"found_high"].isna().all()
    assert still["rank"] == 1 and found["rank"] == 2.5  # refined and not refined are level here
    assert found["people"] == 2 and found["seeds"] == 1 and found["people_per_second"] > 0
    assert lending.posed == 1  # one case for all its cells


def test_what_refinement_saves(lending, own):
    table = by_method(run(small(methods=[f"{own}:UpTo"])))
    name = f"{own}:UpTo()"
    assert table.loc[(name, "no"), "cost"] == pytest.approx(0.7)  # to 9, from 1 and 3
    assert table.loc[(name, "yes"), "cost"] == pytest.approx(0.3)  # and back to 5
    assert table.loc[(name, "no"), "unseen_validity"] == 1


def test_a_seed_poses_its_own_case(lending):
    table = by_method(run(small(seeds=[0, 1])))
    found = table.loc["LocalSearch()", "yes"]
    assert found["unseen_validity"] == 0.5 and found["score"] == pytest.approx((0.85 + 1.85) / 2)
    assert (found["seeds"], found["people"]) == (2, 4)
    assert found["score_low"] < 0.9 and found["score_high"] > 1.8  # seeds are drawn too


def test_an_import_path_with_parameters(lending, own):
    board = run(small(methods=[{f"{own}:UpTo": {"level": 0.6}}, f"{own}:UpTo"]))
    names = set(board.table["method"])
    assert {f"{own}:UpTo(level=0.6)", f"{own}:UpTo()"} <= names
    assert by_method(board).loc[(f"{own}:UpTo(level=0.6)", "no"), "cost"] == pytest.approx(0.4)


def test_a_method_that_fails_costs_its_cells_only(lending, own):
    board = run(small(methods=[f"{own}:Raises", "LocalSearch"]))
    assert set(board.failures.values()) == {"RuntimeError: out of order"} and len(board.failures) == 2
    assert board.not_measured() == [f"german/net, {own}:Raises() (2 cells): RuntimeError: out of order"]
    assert f"{own}:Raises()" not in set(board.table["method"])
    assert by_method(board).loc[("LocalSearch()", "yes"), "found"] == 1
    assert "out of order" in board.to_markdown()


def test_a_case_that_cannot_be_posed_is_told(lending, monkeypatch):
    monkeypatch.setattr(lending, "pose", lambda *parts: 1 / 0)
    board = run(small())
    assert set(board.failures.values()) == {"ZeroDivisionError: division by zero"}
    assert not len(board.table) and "division by zero" in board.to_markdown()


@pytest.mark.parametrize("cut", range(6))
def test_a_run_killed_anywhere_goes_on(lending, tmp_path, monkeypatch, cut):
    grid = small(seeds=2, methods=["LocalSearch", "GrowingSpheres"])
    whole = run(grid, tmp_path)
    file = tmp_path / "cells.jsonl"
    text = file.read_bytes()
    stop = len(text) - 1 if cut == 0 else random.Random(cut).randrange(len(text))
    file.write_bytes(text[:stop])
    kept = text[:stop].count(b"\n") + (cut == 0)  # a last line without its line break is whole
    worked = []
    work = grid_run.work
    monkeypatch.setattr(grid_run, "work", lambda unit: worked.extend(unit.cells) or work(unit))
    again = run(grid, tmp_path)
    assert len(worked) == 10 - kept
    pd.testing.assert_frame_equal(lasting(again), lasting(whole))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 10 and file.read_bytes().endswith(b"\n")
    assert all(line["versions"]["turnabout"] == ta.__version__ and line["cell_seconds"] >= 0 for line in lines)
    worked.clear()
    run(grid, tmp_path)
    assert not worked


def test_damage_before_the_end_is_told_and_kept(lending, tmp_path):
    run(small(), tmp_path)
    file = tmp_path / "cells.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    before = file.read_bytes()
    with pytest.raises(BenchError, match=r"line 2 of .* is no finished cell[\s\S]*Hint: take that line out"):
        run(small(), tmp_path)
    assert file.read_bytes() == before


def test_other_settings_are_another_comparison(lending, tmp_path):
    run(small(), tmp_path)
    count = len((tmp_path / "cells.jsonl").read_text().splitlines())
    table = by_method(run(small(retrained=1), tmp_path))
    assert table.loc[("LocalSearch()", "yes"), "retrained"] == 1
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 2 * count


def test_failed_cells_are_kept_until_a_retry(lending, tmp_path, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(ta.methods.LocalSearch, "_search", lambda self, x: 1 / 0)
        assert len(run(small(), tmp_path).failures) == 2
    assert len(run(small(), tmp_path).failures) == 2
    assert not run(small(), tmp_path, retry=True).failures
    assert not run(small(), tmp_path).failures  # the last line of a cell counts


def test_progress_counts_cells(lending, tmp_path):
    told = []
    run(small(), tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (3, 3)]
    told.clear()
    run(small(), tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(3, 3)]


def test_diversity_is_of_several_options(lending):
    one = by_method(run(small(methods=["Dice", "GrowingSpheres"])))
    assert one["diversity"].isna().all()
    several = by_method(run(small(methods=["GrowingSpheres"], options=3)))
    assert several.loc[("GrowingSpheres()", "yes"), "found"] == 1
    share = several.loc[("GrowingSpheres()", "no"), "diversity"]
    assert share == 0.5 or share != share  # one feature of two differs, where there are two options


def test_strange_arguments(lending):
    with pytest.raises(BenchError, match="jobs=0 is not a whole number from 1 up"):
        run(small(), jobs=0)
    with pytest.raises(BenchError, match="grid='german' is not a Grid"):
        run("german")


@pytest.mark.slow
def test_processes_give_the_same_board_and_may_end(own, tmp_path):
    grid = Grid(models="logistic", methods=["LocalSearch", f"{own}:Ends"], people=6, retrained=1, options=1)
    board = run(grid, tmp_path, jobs=2)
    assert set(board.failures.values()) == {grid_run.ENDED} and len(board.failures) == 2
    alone = run(Grid(models="logistic", methods=["LocalSearch"], people=6, retrained=1, options=1))
    pick = ["method", "refined", "score", "cost", "plausible"]
    both = [lasting(b)[pick].sort_values(["method", "refined"]).reset_index(drop=True) for b in (board, alone)]
    pd.testing.assert_frame_equal(*both)


def test_every_method_trains_its_own_network(lending):
    """Networks are kept for each background: who came second would be quick by what the first has trained."""
    seen = []

    class Notes(ta.methods.GrowingSpheres):
        def _fit(self, problem):
            seen.append(problem.background_x)

    run(small(methods=[Notes(samples=9), Notes(samples=10)]))
    first, second = seen
    assert first is not second and (first == second).all()


def broken(own, *names, **more):
    board = run(small(methods=[f"{own}:{name}" for name in names], **more))
    assert not board.failures
    return board.table[board.table["refined"] == "yes"]["broken_proposals"].tolist()


def test_broken_proposals_are_counted_before_anything_is_mended(lending, own):
    assert broken(own, "UpTo") == [0.0] and broken(own, "Single") == [0.0]  # single precision breaks nothing
    assert broken(own, "Ages") == [1.0]  # which moves what is fixed


def test_proposals_have_the_time_and_the_shape_that_find_asks_for(lending, own):
    began = time.monotonic()
    assert broken(own, "Long", time_limit=0.2) == [0.0]
    assert time.monotonic() - began < 5
    board = run(small(methods=[f"{own}:Flat"]))
    assert (
        all(
            "return Proposal(x_new) with x_new of shape (2, k, 2)" in why or "shape (2, 2)" in why
            for why in board.failures.values()
        )
        and len(board.failures) == 2
    )


def test_whoever_ends_the_program_costs_only_their_cells(lending, own):
    board = run(small(methods=["LocalSearch", f"{own}:Leaves"]))
    assert len(board.failures) == 2 and all("SystemExit" in why for why in board.failures.values())


@pytest.mark.slow
def test_a_method_that_cannot_be_sent_to_a_process_costs_its_cells(own, tmp_path):
    import own_methods_of_a_test as module

    method = module.UpTo(level=lambda: 0.9)
    grid = Grid(data="german", methods=["LocalSearch", method], people=4, options=1, retrained=0)
    board = run(grid, jobs=2)
    assert len(board.failures) == 2 and all("jobs=1" in why for why in board.failures.values())


def test_blank_lines_are_passed_over_and_strange_ones_told(lending, tmp_path):
    run(small(), tmp_path)
    file = tmp_path / "cells.jsonl"
    first, rest = file.read_text().split("\n", 1)
    file.write_text(first + "\n\n" + rest)
    assert len(run(small(), tmp_path).lines) == 3 and len(file.read_text().splitlines()) == 4
    file.write_text(file.read_text() + '{"of": "somebody else"}\n')
    with pytest.raises(BenchError, match="line 5 of"):
        run(small(), tmp_path)
