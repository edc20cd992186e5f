"""People a model was trained on are recognised; people who are merely alike are not mistaken for them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import TrainingError
from turnabout.train.seen import Overlap, Seen, _dealt, refuse_seen

SCHEMA = ta.Schema(
    (ta.Number("age", low=18, high=70, step=1), ta.Number("income", low=0, high=100, decimals=3), ta.Binary("home"))
)


def fine(seed, n=400):
    """People of whom hardly two are alike."""
    rng = np.random.default_rng(seed)
    income = np.round(rng.random(n) * 100, 3)
    return pd.DataFrame({"age": rng.integers(18, 71, n), "income": income, "home": rng.integers(0, 2, n)})


def coarse(rng, n, levels=(3, 4, 5, 6)):
    """People of whom many are alike: levels of unequal frequency."""
    return pd.DataFrame(
        {f"c{i}": rng.choice(m, n, p=np.arange(1, m + 1) / sum(range(m + 1))) for i, m in enumerate(levels)}
    )


def test_training_rows_are_recognised_with_and_without_an_index():
    people = fine(0)
    x = SCHEMA.encode(people)
    seen = Seen.of(x[:300], people.index[:300])
    assert seen.share(x[:300], people.index[:300]) == 1.0
    assert seen.share(x[300:]) == 0.0
    assert seen.overlap(Seen.of(x[250:350])).is_reuse
    assert not seen.overlap(Seen.of(x[300:])).is_reuse
    assert not seen.overlap(Seen.of(x[300:], people.index[300:])).is_reuse


def test_order_types_and_dust_do_not_matter():
    people = fine(1)
    x = SCHEMA.encode(people)
    seen = Seen.of(x)
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    assert seen.share(x[shuffled] + 1e-12) == 1.0
    assert seen.share(x.numpy()) == 1.0
    assert Seen.of(people).share(people.astype(float)) == 1.0
    assert Seen.of(torch.tensor([[0.0]])) == Seen.of(torch.tensor([[-0.0]]))


def test_a_few_rows_give_themselves_away_by_their_labels():
    people = fine(2)
    seen = Seen.of(SCHEMA.encode(people[:300]), people.index[:300])
    mixed = people.iloc[294:394]  # six of a hundred
    assert seen.overlap(Seen.of(SCHEMA.encode(mixed), mixed.index)).is_reuse
    assert not seen.overlap(Seen.of(SCHEMA.encode(mixed))).is_reuse


@pytest.mark.parametrize("reused", [1, 3])
def test_where_no_two_are_alike_one_row_with_its_label_is_enough(reused):
    people = fine(7, 1200)
    train, mixed = people[:1000], pd.concat([people[1000 : 1200 - reused], people[:reused]])
    assert Seen.of(train).overlap(Seen.of(mixed)).is_reuse
    alike = pd.concat([train, train[500:520]])  # a few training rows are alike: still enough
    assert Seen.of(alike).overlap(Seen.of(mixed)).is_reuse


def test_values_alone_are_refused_when_they_coincide_more_often_than_chance_explains():
    people = fine(7, 1200)
    verdicts = []
    for reused in (1, 3, 8, 12):
        mixed = pd.concat([people[1000 : 1200 - reused], people[500 : 500 + reused]]).set_index(np.arange(200) + 5000)
        overlap = Seen.of(people[:1000]).overlap(Seen.of(mixed))
        verdicts.append(overlap.is_reuse)
        assert (overlap.same, overlap.twins, overlap.shared) == (reused, 0, 0)
    assert verdicts == [False, False, True, True]


def test_one_label_for_all_is_no_evidence():
    people = fine(8, 400).set_index(np.zeros(400, dtype=int))
    rest = pd.concat([people[301:], people[:1]])
    overlap = Seen.of(people[:300]).overlap(Seen.of(rest))
    assert overlap.same_label == 1 and not overlap.is_reuse


@pytest.mark.parametrize(("distinct", "alike", "m"), [(900, 20, 200), (0, 150, 40), (300, 300, 300), (60, 60, 100)])
def test_the_chance_of_coincidences_is_bounded(distinct, alike, m):
    """By dealing the rows out anew: never above the bound (1) by more than the simulation errs."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.arange(distinct), 10_000 + rng.choice(60, alike)])
    sizes = np.unique(rows, return_counts=True)[1]
    dealt = [rng.permutation(rows) for _ in range(1000)]
    same = np.array([np.isin(deal[:m], deal[m:]).sum() for deal in dealt])
    for s in np.unique(same):
        share = (same >= s).mean()
        assert share <= _dealt(int(s), sizes, m) + 4 * np.sqrt(share * (1 - share) / 1000) + 1e-3
    assert _dealt(0, sizes, m) == 1.0


@pytest.mark.parametrize("name", ["german", "compas", "bail"])
def test_fresh_people_of_real_tables_are_not_refused(name, request):
    if name != "german":
        request.getfixturevalue("data_home")
    data = ta.datasets.load(name)
    for seed in range(10):
        train, rest = (part.people for part in data.split(test=0.25, seed=seed))
        for tidy in (lambda table: table, lambda table: table.reset_index(drop=True)):
            assert not Seen.of(tidy(train)).overlap(Seen.of(tidy(rest))).is_reuse
    mixed = pd.concat([rest[:197], train[:3]])
    assert Seen.of(train).overlap(Seen.of(mixed)).is_reuse


def test_what_chance_explains_is_remarked():
    people = coarse(np.random.default_rng(0), 900, (20, 20, 20))
    remark = refuse_seen(people[700:], people[:700]).remark
    assert remark.startswith("compared with 700 training rows: ") and "as often as training rows with" in remark
    people = fine(3)
    rest = pd.concat([people[301:], people[:1]]).set_index(np.arange(100) + 900)
    remark = refuse_seen(rest, people[:300]).remark
    assert "1 of 100 coincide with one, and 0 of 300 training rows with each other" in remark
    assert "which chance explains with a probability of up to 0.3" in remark


@pytest.mark.parametrize("levels", [(2,), (3, 4), (3, 4, 5, 6), (9, 9, 9), (20, 20, 20)])
@pytest.mark.parametrize("reset", [False, True])
def test_natural_twins_are_not_refused(levels, reset):
    refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        people = coarse(rng, 900, levels)
        train, rest = people[:700], people[700:]
        rest = rest.reset_index(drop=True) if reset else rest
        refused += Seen.of(train).overlap(Seen.of(rest)).is_reuse
    assert refused == 0


@pytest.mark.parametrize("levels", [(3, 4), (3, 4, 5, 6), (20, 20, 20)])
def test_coarse_training_rows_are_refused_by_their_labels(levels):
    people = coarse(np.random.default_rng(0), 900, levels)
    overlap = Seen.of(people[:700]).overlap(Seen.of(people[600:700]))
    assert overlap.is_reuse and overlap.same_label == 100


def test_coarse_training_rows_are_refused_without_labels_where_it_can_be_known():
    people = coarse(np.random.default_rng(0), 900, (9, 9, 9, 9))
    shuffled = people[:300].sample(100, random_state=0).reset_index(drop=True)
    assert Seen.of(people[:300]).overlap(Seen.of(shuffled)).is_reuse


def test_a_coincidence_alone_proves_nothing():
    people = fine(3)
    train, rest = people[:300], people[300:].reset_index(drop=True)
    rest.loc[0] = train.iloc[17]  # under another label
    overlap = Seen.of(train).overlap(Seen.of(rest))
    assert overlap.same == 1 and not overlap.is_reuse


def test_text_cells_count():
    people = pd.DataFrame({"city": ["Ulm", "Jena"] * 50, "income": np.arange(100) + 0.5})
    other = people.assign(city=people.city[::-1].to_numpy())
    assert Seen.of(people).share(people) == 1.0
    assert Seen.of(people).share(other, index=None) == 0.0


def test_refusal_says_why():
    people = fine(4)
    with pytest.raises(TrainingError, match="the calibration people were trained on: 100 of 100 rows"):
        refuse_seen(people[:100], people, SCHEMA)
    with pytest.raises(TrainingError, match="100 of them under the same index label"):
        refuse_seen(people[:100], people.assign(label=1))
    assert refuse_seen(people[300:], people[:300], SCHEMA).seen == 300
    assert refuse_seen(people, None) is None
    with pytest.raises(TrainingError, match="no column in common"):
        refuse_seen(people, people.rename(columns=str.upper))
    with pytest.raises(TrainingError, match="cannot be compared with"):
        refuse_seen(people, Seen.of(SCHEMA.encode(people)))
    with pytest.raises(TrainingError, match="rows come as"):
        Seen.of(torch.zeros(3))


def test_json_both_ways():
    people = fine(5, n=20)
    for seen in (Seen.of(people), Seen.of(SCHEMA.encode(people))):
        again = Seen.from_json(seen.to_json())
        assert (
            again == seen
            and hash(again) == hash(seen)
            and again.share(people if seen.labels.size else SCHEMA.encode(people)) == 1
        )
        overlap = seen.overlap(again)
        assert Overlap.from_json(overlap.to_json()) == overlap
    assert repr(Seen.of(people)) == "Seen(20 table cells of 3 columns)"
    assert Seen.of(people) != Seen.of(people[:5])


def test_nobody_was_seen():
    nobody = Seen.of(fine(6)[:0])
    assert nobody.share(fine(6)) == 0.0 and Seen.of(fine(6)).share(fine(6)[:0]) == 0.0
    assert not nobody.overlap(Seen.of(fine(6))).is_reuse
