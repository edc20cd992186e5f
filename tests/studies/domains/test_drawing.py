"""The drawing study: stored cats are copies of one cat, strokes go to the end, the network is repeatable."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from turnabout.core.plan import replay
from turnabout.datasets.data_files import SourceFile, obtain
from turnabout.studies import domains
from turnabout.studies.domains import drawing_domain, drawing_recogniser
from turnabout.studies.domains.drawing_domain import next_line, schema, used_lines
from turnabout.studies.domains.drawing_lines import (
    CATS,
    JITTER,
    LINES,
    OTHERS,
    SIZE,
    STUDIED,
    Sketches,
    arrange,
    quad_key,
    stored_cats,
)
from turnabout.studies.domains.drawing_recogniser import HELD_OUT, Recogniser, Training, recogniser, sample, train
from turnabout.typing import Tensor

STROKE = drawing_domain.actions()["AddStroke"]
HAND = [[[(10, 10), (60, 40), (60, 90)]], [[(200, 30), (100, 30)], [(5, 250), (250, 5)]]]  # two drawings
FEW = Training(steps=2, batch=8)


def blank(*lines: tuple[float, float, float, float]) -> Tensor:
    """One encoded drawing of these lines."""
    x = torch.ones(1, LINES, 4, dtype=torch.float64)
    for i, line in enumerate(lines):
        x[0, i] = torch.tensor(line, dtype=torch.float64)
    return x.reshape(1, -1)


def r(*points: float) -> Tensor:
    return torch.tensor([points], dtype=torch.float64)


def content(source: SourceFile, home: Path) -> bytes:
    if not any((home / source.folder / name).is_file() for name in (source.file, source.file + ".gz")):
        pytest.skip(f"{source.folder}/{source.file} is not under TURNABOUT_DATA")
    return obtain(source).content


def ndjson() -> bytes:
    """The two drawings by hand and a cat, as Google writes them: a stroke is a list of x and a list of y."""
    rows = [("boat", HAND[0]), ("cat", HAND[0]), ("tree", HAND[1])]
    return b"\n".join(
        json.dumps({"word": word, "drawing": [list(map(list, zip(*stroke))) for stroke in strokes]}).encode()
        for word, strokes in rows
    )


# -- lines --------------------------------------------------------------------------------------------------------


def test_quarters_come_top_left_bottom_left_bottom_right_top_right() -> None:
    x, y = torch.tensor([0, 127, 0, 128, 255, 128, 192]), torch.tensor([0, 127, 128, 128, 255, 127, 0])
    keys = quad_key(x, y).tolist()
    assert keys == [0, 2 * (4**7 - 1) // 3, 4**7, 2 * 4**7, 2 * (4**8 - 1) // 3, 3 * 4**7 + (4**7 - 1) // 3, keys[-1]]
    assert keys[-1] == 3 * 4**7 + 3 * 4**6


def test_lines_are_turned_and_sorted_and_the_rest_is_unused() -> None:
    lines = torch.tensor([[[200, 10, 150, 20], [7, 9, 7, 3], [1, 1, 2, 2], [130, 200, 140, 210]]])
    out = arrange(lines, torch.tensor([[True, True, False, True]]))[0]
    assert out[:3].tolist() == [[7, 3, 7, 9], [130, 200, 140, 210], [150, 20, 200, 10]]
    assert out.shape == (LINES, 4) and bool((out[3:] == SIZE).all())


def test_a_line_joins_each_two_points_of_a_stroke() -> None:
    both = Sketches.of(HAND)
    assert both.ends.tolist() == [[[0, 1], [1, 2]], [[0, 1], [2, 3]]]
    assert both.points[0].tolist() == [[10, 10], [60, 40], [60, 90], [0, 0]]
    first, second = (part.points.tolist() for part in both.split(2))
    assert first == [both.points[1].tolist()] and second == [both.points[0].tolist()]


GUESSED = 3  # pixels by which the original found from its copies may be off
ZIGZAG = Sketches.of([[[(10 + 2 * i, 60 + 120 * (i % 2)) for i in range(95)]]])  # 94 lines, as the cat has


def stored_copies(sketch: Sketches, n: int = 50) -> bytes:
    """A sample as the stored one is, of jittered copies of a drawing."""
    which = torch.zeros(n, dtype=torch.long)
    lines = sketch.copies(which, which, torch.Generator().manual_seed(3)).numpy()
    file = io.BytesIO()
    np.savez(file, lines=lines, labels=np.tile([0, 1], (n, 1)))
    return file.getvalue()


def test_the_original_is_recovered_from_its_copies() -> None:
    shelf = Sketches.of([[[(20 + 60 * i, 20 + 60 * j) for i in range(4)] for j in range(4)]])  # 12 lines, far apart
    found = Sketches.cat(stored_copies(shelf, 500))
    assert sorted(found.points[0].tolist()) == sorted(shelf.points[0].tolist())
    assert found.ends.shape == (1, 12, 2)


def test_copies_move_points_by_at_most_five_and_keep_lines_joined() -> None:
    n = 200
    which = torch.zeros(n, dtype=torch.long)
    out = Sketches.of(HAND).copies(which, which, torch.Generator().manual_seed(0))[:, :2]
    assert bool((out[:, 0, 2:] == out[:, 1, :2]).all(1).sum() > 0.4 * n)  # unless the second line was turned
    shift = out[:, 0] - torch.tensor([10, 10, 60, 40])
    assert shift.min() == -JITTER and shift.max() == JITTER


def test_copies_lack_as_many_lines_as_asked_and_stay_in_the_frame() -> None:
    remove = torch.arange(10)
    out = ZIGZAG.copies(torch.zeros_like(remove), remove, torch.Generator().manual_seed(1))
    used = (out != SIZE).any(-1)
    assert used.sum(1).tolist() == [94 - i for i in range(10)]
    assert out[used].min() >= 1 and out[used].max() <= SIZE - 1


def test_other_drawings_are_read_without_cats_and_without_long_ones() -> None:
    long = {"word": "hair", "drawing": [[list(range(130)), list(range(130))]]}
    read = Sketches.others(ndjson() + b"\n" + json.dumps(long).encode())
    assert read.points.tolist() == Sketches.of(HAND).points.tolist()


# -- the stored sample ----------------------------------------------------------------------------------------------


def test_stored_drawings_are_in_our_order(data_home: Path) -> None:
    lines = torch.from_numpy(stored_cats(content(CATS, data_home))[0])
    used = (lines != SIZE).any(-1)
    shuffled = torch.stack([torch.randperm(LINES, generator=torch.Generator().manual_seed(i)) for i in range(1000)])
    mixed = lines.gather(1, shuffled.unsqueeze(-1).expand_as(lines))
    assert torch.equal(arrange(mixed.clamp(max=SIZE - 1), used.gather(1, shuffled)), lines)


def test_every_stored_drawing_is_a_jittered_copy_of_the_cat(data_home: Path) -> None:
    lines, whole = stored_cats(content(CATS, data_home))
    used = (lines != SIZE).any(-1)
    assert used[whole].sum(1).tolist() == [94] * 500
    assert set(used[~whole].sum(1).tolist()) == set(range(85, 94))
    cat = Sketches.cat(content(CATS, data_home))
    own = cat.points[0][cat.ends[0]].reshape(94, 1, 4).numpy()
    for drawing_, lines_used in zip(lines, used, strict=True):
        copy = drawing_[lines_used][None]
        far = np.minimum(np.abs(own - copy).max(2), np.abs(own[..., [2, 3, 0, 1]] - copy).max(2)) > JITTER + GUESSED
        assert far[linear_sum_assignment(far)].sum() == 0


def test_the_sixteen_lack_three_to_nine_lines(data_home: Path) -> None:
    lines, whole = stored_cats(content(CATS, data_home))
    rows = list(STUDIED)
    assert not whole[rows].any()
    lacking = 94 - (lines[rows] != SIZE).any(-1).sum(1)
    assert lacking.tolist() == [8, 3, 7, 8, 4, 3, 6, 7, 6, 6, 6, 6, 5, 3, 9, 3]
    assert (lacking <= 6).sum() == 11  # as many as the paper solved with six strokes


# -- the network ----------------------------------------------------------------------------------------------------


def test_the_network_has_the_published_size() -> None:
    net = Recogniser()
    assert sum(weight.numel() for weight in net.parameters()) == 1_052_474
    assert net(torch.rand(3, 512)).shape == (3, 2)


def test_a_batch_is_half_whole_cats_a_quarter_lacking_a_quarter_others() -> None:
    x, whole = sample(40, ZIGZAG, Sketches.of(HAND), torch.Generator().manual_seed(0))
    count = used_lines(x).sum(1)
    assert x.shape == (40, 512) and whole.tolist() == [1] * 20 + [0] * 20
    assert bool((count[:20] == 94).all()) and bool(((count[20:30] >= 85) & (count[20:30] < 94)).all())
    assert bool((count[30:] == 2).all())


def test_training_repeats_itself_and_leaves_the_global_generator_alone() -> None:
    others = Sketches.of(HAND)
    before = torch.random.get_rng_state()
    first, second = train(ZIGZAG, others, FEW), train(ZIGZAG, others, FEW)
    third = train(ZIGZAG, others, Training(steps=2, batch=8, seed=1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.dense.weight, third.dense.weight)


def test_a_step_of_training_is_adams() -> None:
    others, start = Sketches.of(HAND), Recogniser(0).requires_grad_(False)
    moved = train(ZIGZAG, others, Training(steps=2, batch=8, lr=0.01))
    # In step 1 every weight moves by the rate against its slope, here half of 0.01; in step 2 the rate is zero.
    change = (moved.logits.weight - start.logits.weight).abs()
    assert change.max() == pytest.approx(0.005, rel=1e-3) and bool((change > 0.0049).float().mean() > 0.5)


def test_weights_are_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNABOUT_CACHE", str(tmp_path))
    trained: list[Training] = []

    def counted(cat: Sketches, others: Sketches, training: Training) -> Recogniser:
        trained.append(training)
        return train(cat, others, training)

    monkeypatch.setattr(drawing_recogniser, "train", counted)
    x = torch.rand(4, 512)
    first = recogniser(stored_copies(ZIGZAG), ndjson(), FEW)(x)
    assert torch.equal(recogniser(stored_copies(ZIGZAG), ndjson(), FEW)(x), first) and len(trained) == 1
    (kept,) = (tmp_path / "quickdraw").iterdir()
    assert FEW.fingerprint in kept.name
    kept.write_bytes(kept.read_bytes()[:1000])  # a file that is not whole is not used
    assert torch.equal(recogniser(stored_copies(ZIGZAG), ndjson(), FEW)(x), first) and len(trained) == 2
    recogniser(stored_copies(ZIGZAG), ndjson(), Training(steps=1, batch=8))  # other settings, other weights
    assert len(trained) == 3


# -- the action -----------------------------------------------------------------------------------------------------


def test_a_stroke_goes_into_the_first_unused_line_with_the_smaller_x_first() -> None:
    x = blank((0.1, 0.1, 0.2, 0.2), (1.0, 1.0, 1.0, 0.5))
    assert STROKE.form is not None
    assert next_line(x)[0].nonzero().flatten().tolist() == [2]
    for points in ((0.2, 0.1, 0.5, 0.5), (0.5, 0.5, 0.2, 0.1)):
        x_new = STROKE.form.effect(x, r(*points))
        assert x_new.reshape(LINES, 4)[2].tolist() == [0.2, 0.1, 0.5, 0.5]
        assert int((x_new != x).sum()) == 4
    vertical = STROKE.form.effect(x, r(0.3, 0.8, 0.3, 0.4))
    assert vertical.reshape(LINES, 4)[2].tolist() == [0.3, 0.4, 0.3, 0.8]


def test_a_stroke_costs_its_printed_length_and_must_be_visible() -> None:
    x = blank((0.1, 0.1, 0.2, 0.2))
    form = STROKE.form
    assert form is not None and form.precondition is not None
    for points, length in (((0.2, 0.1, 0.5, 0.5), 0.5), ((0.2, 0.2, 0.23, 0.24), 0.05), ((0.1, 0.3, 0.8, 0.3), 0.7)):
        x_new = form.effect(x, r(*points))
        assert form.cost(x, x_new, r(0, 0, 0, 0)).tolist() == pytest.approx([length])
        slack = form.precondition(x, x_new, r(0, 0, 0, 0))
        assert slack[0].tolist() == pytest.approx([length - 0.1, 0.6 - length, 1.0])


def test_a_full_drawing_takes_no_stroke() -> None:
    full = torch.zeros(1, 4 * LINES, dtype=torch.float64)
    form = STROKE.form
    assert form is not None and form.precondition is not None
    x_new = form.effect(full, r(0.2, 0.1, 0.5, 0.5))
    assert torch.equal(x_new, full)
    assert form.precondition(full, x_new, r(0.2, 0.1, 0.5, 0.5))[0].tolist() == pytest.approx([-0.1, 0.6, -1.0])


def test_length_has_a_slope_along_the_stroke() -> None:
    x, points = blank((0.1, 0.1, 0.2, 0.2)), r(0.5, 0.5, 0.2, 0.1).requires_grad_()
    assert STROKE.form is not None
    length = STROKE.form.cost(x, STROKE.form.effect(x, points), points)
    (slope,) = torch.autograd.grad(length.sum(), points)
    assert slope[0].tolist() == pytest.approx([0.6, 0.8, -0.6, -0.8])


def test_a_search_starts_over_lines_of_the_drawing_and_in_the_frame() -> None:
    x = blank((0.4, 0.5, 0.6, 0.5), (0.0, 0.0, 0.02, 0.02)).expand(500, -1)
    form = STROKE.form
    assert form is not None and form.start is not None
    start = form.start(x, torch.Generator().manual_seed(0))
    assert torch.equal(start, form.start(x, torch.Generator().manual_seed(0)))
    assert bool((start >= 0).all()) and bool((start <= 1).all())
    length = torch.linalg.vector_norm(start[:, 2:] - start[:, :2], dim=1)
    assert length.min() > 0.1099 and length.max() < 0.5801 and abs(length.mean() - 0.4) < 0.02
    over = ((start[:, :2] + start[:, 2:]) / 2 - 0.5).abs().amax(1) < 1e-9
    assert 0.4 < over.double().mean() < 0.6  # the other half lies over the line in the corner, shifted into the frame
    nothing = form.start(blank(), torch.Generator().manual_seed(0))
    assert bool(((nothing >= 0) & (nothing <= 1)).all())


def test_strokes_follow_each_other_on_the_printed_grid() -> None:
    columns = schema(whole=True)
    bound = drawing_domain.actions().bind(columns)
    sequences = torch.tensor([[0, 0]])
    parameters = torch.tensor([[[0.5, 0.5, 0.2, 0.1], [0.2, 0.5, 0.4, 0.5]]], dtype=torch.float64)
    path = bound.script(sequences).roll(bound.tables.units(blank((0.1, 0.1, 0.2, 0.2))), parameters)
    lines = path.end.reshape(LINES, 4) / SIZE
    assert lines[1:3].tolist() == [pytest.approx([0.2, 0.1, 0.5, 0.5]), pytest.approx([0.2, 0.5, 0.4, 0.5])]
    assert path.cost[0].tolist() == pytest.approx([0.5, 0.2])


def test_coordinates_are_pixels() -> None:
    columns = schema()
    assert len(columns) == columns.d == 512
    assert columns.names[:5] == ("x1_001", "y1_001", "x2_001", "y2_001", "x1_002") and columns.names[-1] == "y2_128"


# -- the whole study --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(data_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[domains.Domain]:
    """The domain with a network trained for these tests (about ten seconds)."""
    content(CATS, data_home), content(OTHERS, data_home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNABOUT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield domains.load("drawing")


@pytest.mark.slow
def test_held_out_drawings_are_told_as_well_as_published(study: domains.Domain, data_home: Path) -> None:
    lines, whole = stored_cats(content(CATS, data_home))
    x = torch.from_numpy(lines).reshape(1000, -1).double() / SIZE
    assert ((study.model.margin(x) >= 0).numpy() == whole).mean() >= study.published["accuracy"]
    _, held_out = Sketches.others(content(OTHERS, data_home)).split(HELD_OUT)
    x, label = sample(4000, Sketches.cat(content(CATS, data_home)), held_out, torch.Generator().manual_seed(1))
    right = (study.model.margin(x.double()) >= 0) == (label == 1)
    assert right.double().mean() >= study.published["accuracy"]


@pytest.mark.slow
def test_the_sixteen_are_refused_and_can_be_replayed(study: domains.Domain) -> None:
    assert list(study.people.index) == list(STUDIED)
    assert (study.model.judge(study.people) < 0).all()
    x = study.schema.encode(study.people)
    sequences = torch.zeros(len(x), 2, dtype=torch.long)
    strokes = torch.tensor([[0.123456, 0.2, 0.3, 0.2], [0.5, 0.5, 0.2, 0.9]], dtype=torch.float64).expand(len(x), 2, 4)
    done = replay(study.problem, x, sequences, strokes)
    assert bool(done.allowed.all())
    assert used_lines(done.end).sum(1).tolist() == (used_lines(x).sum(1) + 2).tolist()
    assert done.cost[0].tolist() == pytest.approx([0.3 - round(0.123456 * SIZE, 2) / SIZE, 0.5], abs=5e-5)
    long = torch.tensor([[[0.1, 0.2, 0.9, 0.2]]], dtype=torch.float64)
    assert not bool(replay(study.problem, x[:1], sequences[:1, :1], long).allowed.any())


@pytest.mark.slow
def test_short_strokes_complete_a_drawing_that_lacks_three_lines(study: domains.Domain) -> None:
    """Nothing but chance: of many strokes of the least length, drawn anywhere, some are taken for the missing lines."""
    x = study.schema.encode(study.people.loc[[96]]).expand(256, -1)
    assert STROKE.form is not None and STROKE.form.start is not None
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        points = STROKE.form.start(x, generator)
        middle, reach = (points[:, :2] + points[:, 2:]) / 2, (points[:, 2:] - points[:, :2]) / 2
        reach = 0.0505 * reach / torch.linalg.vector_norm(reach, dim=1, keepdim=True)
        x = STROKE.form.effect(x, torch.cat([middle - reach, middle + reach], 1))
    assert 0.05 < float((study.model.margin(x) >= 0).double().mean()) < 0.95
