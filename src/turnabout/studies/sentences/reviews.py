"""Sentences of film reviews and words of opposite meaning: the Stanford Sentiment Treebank and WordNet.

Neither is ever downloaded: both are read from TURNABOUT_DATA or the cache, and checked first.
"""

from __future__ import annotations

import io
import re
from typing import Literal, get_args

import pandas as pd

from turnabout.datasets.data_files import SourceFile, obtain
from turnabout.errors import DataError

Split = Literal["train", "dev", "test"]
NEUTRAL = 2  # of the labels 0 to 4
ESCAPES = (("-LRB-", "("), ("-RRB-", ")"), ("\\/", "/"), ("\xa0", " "))
WORD = re.compile(r"([^() ]+)\)")  # "8 1/2" is one word to the treebank, with a space that does not break
MARK = re.compile(r"\((\d)|([^() ]+)|\)")  # a phrase opens with its label; a word; a phrase ends
PARTS = {"n": "nouns", "v": "verbs", "a": "adjectives", "r": "adverbs"}


def _trees(split: Split, sha256: str) -> SourceFile:
    by_hand = (
        f"trainDevTestTrees_PTB.zip of https://nlp.stanford.edu/sentiment/ holds it under the name {split}.txt; it is "
        "for research."
    )
    return SourceFile("sst2", f"trees_{split}.txt", sha256, by_hand=by_hand)


TREES: dict[Split, SourceFile] = {
    "train": _trees("train", "e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7"),
    "dev": _trees("dev", "0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40"),
    "test": _trees("test", "6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761"),
}
ANTONYMS = SourceFile(
    "wordnet_antonyms",
    "wordnet31_antonyms.csv",
    "912067c6f9a64af5ccf5e33cf12e5777a3279c68679f40fcb7ba010ec449fc47",
    by_hand="It lists the antonym pointers ('!') of WordNet 3.1, https://wordnet.princeton.edu, as columns word, pos, "
    "antonym, synset_offset, antonym_synset_offset.",
)


def sentences(split: Split = "train") -> pd.DataFrame:
    """Film reviews of one sentence: columns sentence and accepted, which says whether the review is favourable.

    The Stanford Sentiment Treebank (Socher et al., 2013) without its neutral sentences: 6,920 / 872 / 1,821 of them,
    words and punctuation separated by spaces.
    """
    labels, texts = [], []
    for line in _lines(split):
        if (label := int(line[1])) != NEUTRAL:
            labels.append(label > NEUTRAL)
            texts.append(_unescape(" ".join(WORD.findall(line))))
    return pd.DataFrame({"sentence": texts, "accepted": labels})


def phrases(split: Split = "train") -> pd.DataFrame:
    """Every phrase of the split's sentences that people called favourable or not, whole sentences included, once each.

    Columns as of `sentences`; 77,616 in the training split.
    """
    labels: dict[str, bool] = {}
    for line in _lines(split):
        opened: list[tuple[int, list[str]]] = []
        for label, word in MARK.findall(line):
            if label:
                opened.append((int(label), []))
            elif word:
                opened[-1][1].append(word)
            else:
                value, words = opened.pop()
                if opened:
                    opened[-1][1].extend(words)
                if value != NEUTRAL:
                    labels.setdefault(_unescape(" ".join(words)), value > NEUTRAL)
    return pd.DataFrame({"sentence": list(labels), "accepted": list(labels.values())})


def antonyms(parts: str = "na") -> dict[str, tuple[str, ...]]:
    """Words and their direct antonyms by WordNet 3.1, in lower case, single words only.

    Parameters
    ----------
    parts : of speech: letters of "nvar" (nouns, verbs, adjectives, adverbs). Nouns and adjectives by default, as in
        the case study of Ross, Lakkaraju and Bastani (2021).

    Words come in alphabetical order; the antonyms of one in the order of WordNet, nouns first. A word has those of all
    its meanings: the part of speech is that of the dictionary, not that of the word in a sentence.
    """
    if not isinstance(parts, str) or not parts or not set(parts) <= PARTS.keys():
        known = ", ".join(f"{letter} ({name})" for letter, name in PARTS.items())
        raise DataError(f"parts={parts!r} are not parts of speech.", hint=f"use letters of {known}.")
    table = pd.read_csv(io.BytesIO(obtain(ANTONYMS).content), keep_default_na=False, dtype=str)
    found: dict[str, list[str]] = {}
    for word, part, antonym in zip(table["word"].str.lower(), table["pos"], table["antonym"].str.lower()):
        if part in parts and " " not in word + antonym and antonym not in found.setdefault(word, []):
            found[word].append(antonym)
    return {word: tuple(found[word]) for word in sorted(found)}


def _lines(split: Split) -> list[str]:
    if split not in get_args(Split):
        raise DataError(f"there is no split {split!r} of the sentences.", hint=f"use {', '.join(get_args(Split))}.")
    return obtain(TREES[split]).content.decode("utf-8").rstrip("\n").split("\n")


def _unescape(text: str) -> str:
    for written, meant in ESCAPES:
        text = text.replace(written, meant)
    return text
