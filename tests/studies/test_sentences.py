"""Sentences and antonyms: read from disk, checked, never downloaded."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from turnabout.errors import DataError
from turnabout.studies import sentences
from turnabout.studies.sentences.reviews import ANTONYMS, TREES

MODULE = sys.modules["turnabout.studies.sentences.reviews"]  # the function of that name hides it in the package
TREE_LINES = (
    "(3 (2 The) (4 (3 good) (2 (2 8\xa01\\/2) (2 films))))\n"
    "(2 (2 A) (2 film))\n"
    "(0 (1 (2 Not) (3 good)) (2 (2 -LRB-) (2 (1 bad) (2 -RRB-))))\n"
)
PAIRS = (
    "word,pos,antonym,synset_offset,antonym_synset_offset\n"
    "good,n,evil,1,2\ngood,n,bad,3,4\nHell,n,Heaven,5,6\nill nature,n,kindness,7,8\nkindness,n,ill nature,8,7\n"
    "love,v,hate,1,2\ngood,a,bad,3,4\nbad,a,good,4,3\nfew,a,many,1,2\nwell,r,badly,1,2\n"
)


@pytest.fixture
def at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small files in the place of the real ones."""
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path))
    monkeypatch.setenv("TURNABOUT_CACHE", str(tmp_path / "cache"))
    for source, text in ((TREES["train"], TREE_LINES), (ANTONYMS, PAIRS)):
        path = tmp_path / source.folder / source.file
        path.parent.mkdir()
        path.write_bytes(text.encode())
    sums = [hashlib.sha256(text.encode()).hexdigest() for text in (TREE_LINES, PAIRS)]
    monkeypatch.setattr(MODULE, "TREES", {**TREES, "train": replace(TREES["train"], sha256=sums[0])})
    monkeypatch.setattr(MODULE, "ANTONYMS", replace(ANTONYMS, sha256=sums[1]))
    return tmp_path


def test_neutral_sentences_are_left_out_and_brackets_are_brackets_again(at_hand: Path) -> None:
    table = sentences.sentences("train")
    assert table["sentence"].tolist() == ["The good 8 1/2 films", "Not good ( bad )"]
    assert table["accepted"].tolist() == [True, False]


def test_phrases_are_all_labelled_parts_once(at_hand: Path) -> None:
    table = sentences.phrases("train")
    assert dict(zip(table["sentence"], table["accepted"])) == {
        "good": True,
        "good 8 1/2 films": True,
        "The good 8 1/2 films": True,
        "Not good": False,
        "bad": False,
        "Not good ( bad )": False,
    }
    assert table["sentence"].is_unique


def test_antonyms_are_single_words_in_lower_case_and_in_order(at_hand: Path) -> None:
    found = sentences.antonyms()
    assert list(found.items()) == [
        ("bad", ("good",)),
        ("few", ("many",)),
        ("good", ("evil", "bad")),
        ("hell", ("heaven",)),
    ]
    assert sentences.antonyms("vr") == {"love": ("hate",), "well": ("badly",)}


@pytest.mark.parametrize("parts", ["", "nx", 5, None, ["n", "a"]])
def test_parts_of_speech_are_checked(parts: Any) -> None:
    with pytest.raises(DataError, match=r"not parts of speech(.|\n)*a \(adjectives\)"):
        sentences.antonyms(parts)


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(DataError, match=r"no split 'valid'(.|\n)*train, dev, test"):
        sentences.sentences("valid")  # type: ignore[arg-type]


def test_absent_files_say_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNABOUT_DATA", raising=False)
    monkeypatch.setenv("TURNABOUT_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=r"no open download(.|\n)*nlp.stanford.edu/sentiment(.|\n)*TURNABOUT_DATA"):
        sentences.sentences("dev")
    with pytest.raises(DataError, match=r"no open download(.|\n)*wordnet.princeton.edu(.|\n)*TURNABOUT_DATA"):
        sentences.antonyms()


def test_other_bytes_are_refused(at_hand: Path) -> None:
    (at_hand / "sst2" / "trees_train.txt").write_text("(3 (2 Fine))\n")
    with pytest.raises(DataError, match="wrong checksum"):
        sentences.sentences("train")


def real(data_home: Path, *names: str) -> None:
    for name in names:
        if not any((data_home / each).is_file() for each in (name, name + ".gz")):
            pytest.skip(f"{name} is not under TURNABOUT_DATA")


@pytest.mark.parametrize(("split", "rows", "accepted"), [("train", 6920, 3610), ("dev", 872, 444), ("test", 1821, 909)])
def test_the_splits_have_their_known_counts(data_home: Path, split: str, rows: int, accepted: int) -> None:
    real(data_home, f"sst2/trees_{split}.txt")
    table = sentences.sentences(split)  # type: ignore[arg-type]
    assert (len(table), int(table["accepted"].sum())) == (rows, accepted)
    assert table["accepted"].dtype == bool
    prepared = data_home / "sst2" / f"sst2_{split}.csv.gz"
    if prepared.is_file():  # made by others from the same trees; it lost the words "8 1/2" and "2 1/2"
        other = pd.read_csv(prepared, keep_default_na=False)
        assert (table["accepted"] == (other["label"] == 1)).all()
        assert table["sentence"][table["sentence"] != other["sentence"]].str.contains(" 1/2 ").all()


def test_phrases_hold_every_sentence_and_many_more(data_home: Path) -> None:
    real(data_home, "sst2/trees_dev.txt")
    table, whole = sentences.phrases("dev"), sentences.sentences("dev")
    assert whole["sentence"].isin(table["sentence"]).all()
    assert len(table) > 5 * len(whole)


def test_antonyms_of_wordnet(data_home: Path) -> None:
    real(data_home, "wordnet_antonyms/wordnet31_antonyms.csv")
    found = sentences.antonyms()
    assert found["good"] == ("evil", "bad")
    assert "bad" in found and "good" in found["bad"]
    assert "seldom" not in found and "seldom" not in sentences.antonyms("a")
    assert all(word == word.lower() and " " not in word for word in found)
    assert list(found) == sorted(found) and all(found.values())
    assert len(sentences.antonyms("nvar")) > len(found) > 4000
