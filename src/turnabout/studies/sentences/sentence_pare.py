"""SentencePare: recourse training where a change is one word for another (Ross, Lakkaraju and Bastani, 2021, B.4)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self, get_args

import numpy as np
import pandas as pd
import torch

from turnabout.core import GUARD, Status
from turnabout.errors import TrainingError
from turnabout.parameters import (
    Choice,
    Finite,
    Flag,
    Instance,
    Maybe,
    Parameters,
    Positive,
    Share,
    Whole,
    check_parameters,
    checked,
)
from turnabout.progress_bar import Bar
from turnabout.studies.sentences.bag import UNKNOWN, Bag, BagSettings, Swaps, Texts, train_bag
from turnabout.train.examples import read_labels, split
from turnabout.train.stack import History, Keep
from turnabout.typing import Progress, Tensor

CANDIDATES = 'write {"bad": ("good",)}; turnabout.datasets.antonyms() has the form.'


@dataclass(frozen=True, slots=True)
class Replacement:
    """A sentence with one word replaced; position counts words from 0."""

    sentence: str
    position: int
    word: str
    antonym: str


@checked(
    TrainingError,
    candidates=Instance(Mapping, hint=CANDIDATES),
    lam=Finite(least=0, hint="use 0 or more; 0.25 is the paper's."),
    most=Whole(1),
    dim=Whole(1),
    hidden=Whole(1),
    dropout=Finite(least=0, below=1, hint="0 drops nothing."),
    word_dropout=Finite(least=0, below=1, hint="0 drops nothing."),
    epochs=Whole(1),
    batch=Whole(1),
    lr=Positive(),
    refused_only=Flag(),
    keep=Choice(*get_args(Keep)),
    patience=Maybe(Whole(1, hint="use 1 or more epochs, or None.")),
    validation=Share(above=0, below=1),
    threshold=Share(above=0, below=1),
    seed=Whole(0),
)
class SentencePare(Parameters):
    r"""A classifier of sentences that is accurate and also grants recourse by replacing one word.

    Minimises over the weights of a network g

        mean of   l(g(x), y)  +  lam * min over delta in Delta(x) of  l(g(x with delta), 1)                    (1)

    with l the cross-entropy and Delta(x) the sentences that differ from x by one word replaced by one of its
    `candidates`: the first `most` of them in reading order. All are tried, so the inner minimum is exact. Sentences
    without any have no second term. lam = 0 is ordinary training.

    g is the mean of learned word vectors with one hidden layer on top, trained in seconds, where the paper tunes BERT.
    Words are what spaces separate ("good ." and not "good."), and their case plays no part.

    A high rate of recourse is not yet good advice: (1) may also be lowered by calling rare words favourable. Compare
    with the ordinary model's opinion of the same changes before showing any.

    Parameters
    ----------
    candidates : words, in lower case, and what may stand in their place, such as turnabout.datasets.antonyms().
    lam : weight of recourse beside accuracy.
    most : candidates considered for a sentence.
    dim, hidden : sizes of the word vectors and of the hidden layer.
    dropout, word_dropout : share of cells and of words left out at random during training.
    epochs, batch, lr : of Adam.
    refused_only : ask for recourse only where the network currently says P(yes) < 0.5, as the paper does here; the
        threshold plays no part in training.
    keep : which epoch's weights: lowest dev "loss", highest dev "f1", or the "last".
    patience : stop after so many epochs without a better one; None never stops early.
    validation : share of the sentences set aside for `keep` and `patience` where fit is given no dev sentences.
    threshold : the least P(yes) that is a yes.
    seed : same seed, same answer.

    References
    ----------
    Ross, Lakkaraju, Bastani (2021), Learning models for actionable recourse, appendix B.4.
    """

    _estimator_type = "classifier"
    vocabulary_: dict[str, int]
    net_: Bag
    history_: History

    refuses = TrainingError

    def __init__(
        self,
        candidates: Mapping[str, Sequence[str]],
        lam: float = 0.25,
        most: int = 10,
        dim: int = 32,
        hidden: int = 32,
        dropout: float = 0.3,
        word_dropout: float = 0.2,
        epochs: int = 10,
        batch: int = 256,
        lr: float = 0.003,
        refused_only: bool = True,
        keep: Keep = "loss",
        patience: int | None = 2,
        validation: float = 0.1,
        threshold: float = 0.5,
        seed: int = 0,
    ):
        self.candidates = candidates
        self.lam = lam
        self.most = most
        self.dim = dim
        self.hidden = hidden
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.refused_only = refused_only
        self.keep = keep
        self.patience = patience
        self.validation = validation
        self.threshold = threshold
        self.seed = seed

    # -- scikit-learn ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        params = {k: v for k, v in self.get_params().items() if k != "candidates"}
        shown = [f"{k}={v!r}" for k, v in params.items() if v != defaults[k].default]
        return f"SentencePare({', '.join([f'<{len(self.candidates)} words>', *shown])})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "net_")

    # -- training ---------------------------------------------------------------------------------------------

    def fit(
        self,
        sentences: Any,
        accepted: Any,
        dev: tuple[Any, Any] | None = None,
        progress: bool | Progress = False,
    ) -> Self:
        """Train on sentences and on which were really accepted; returns self.

        dev : sentences and labels that choose the epoch; None sets `validation` of the given ones aside for that.
        progress : True draws a bar; or a function of (batches done, batches in all).
        """
        self._check()
        texts = read_sentences(sentences)
        labels = read_labels(accepted, len(texts))
        series = isinstance(accepted, pd.Series) and isinstance(sentences, pd.Series)
        if series and not accepted.index.equals(sentences.index):
            raise TrainingError("sentences and accepted have different indexes.", hint="accepted.loc[x.index]")
        rows, held = split(labels, np.arange(len(texts)), self.validation, self.seed)  # refuses one label only
        if dev is None:
            dev_texts, dev_labels = [texts[i] for i in held], labels[held]
            texts, labels = [texts[i] for i in rows], labels[rows]
        else:
            dev_texts = read_sentences(dev[0])
            dev_labels = read_labels(dev[1], len(dev_texts))
            if not dev_texts:
                raise TrainingError("there are no dev sentences.", hint="leave dev out to set some aside.")
        self.vocabulary_, seen = self._learn_words(texts)
        settings = BagSettings(**{name: getattr(self, name) for name in BagSettings.__dataclass_fields__})
        net = Bag(len(seen), seen, self.dim, self.hidden, self.seed)
        bar = Bar("training") if progress is True else nullcontext(progress or None)
        with bar as report:
            history = train_bag(net, self._texts(texts, labels), self._texts(dev_texts, dev_labels), settings, report)
        self.net_, self.history_ = net, history
        return self

    # -- asking -----------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        return np.array([False, True])

    def score_of(self, sentences: Any) -> np.ndarray:
        """(n,) P(yes)."""
        if not self.__sklearn_is_fitted__():
            raise TrainingError("this SentencePare is not trained yet.", hint="call fit(sentences, accepted) first.")
        texts = read_sentences(sentences)
        return self.net_.score(self._encode(texts)).numpy() if texts else np.zeros(0)

    def predict_proba(self, sentences: Any) -> np.ndarray:
        """(n, 2): P(no), P(yes)."""
        yes = self.score_of(sentences)
        return np.stack([1 - yes, yes], 1)

    def predict(self, sentences: Any) -> np.ndarray:
        """(n,) True where P(yes) reaches the threshold."""
        return self.score_of(sentences) >= self.threshold

    def score(self, sentences: Any, accepted: Any) -> float:
        """Accuracy."""
        texts = read_sentences(sentences)
        labels = read_labels(accepted, len(texts))
        if not len(labels):
            raise TrainingError("there is nobody to judge.", hint="pass sentences and their labels.")
        return float((self.predict(texts) == labels).mean())

    def candidates_of(self, sentence: str) -> list[Replacement]:
        """The sentences that replace one word, `most` at most: word by word as read, antonyms in their order."""
        words = sentence.split()
        out = []
        for position, antonym in self._changes(words):
            word = words[position]
            antonym = antonym.capitalize() if word[0].isupper() else antonym
            text = " ".join([*words[:position], antonym, *words[position + 1 :]])
            out.append(Replacement(text, position, word, antonym))
        return out

    def recourse(self, sentences: Any) -> pd.DataFrame:
        """What the authors of refused sentences can do: one row for each sentence, under its index.

        status : ACCEPTED as it is; FOUND, a replacement reaches the threshold, read as printed; or NOT_FOUND.
        replacement, word, antonym : the replacement with the highest score where one is found, else empty.
        before, after : P(yes) of the sentence and of its best replacement, be it enough or not (before if there is
            none, or none is needed).
        candidates : how many replacements there are to choose from; none means that no model could grant recourse.
        """
        texts = read_sentences(sentences)
        before = self.score_of(texts)
        options = [self.candidates_of(text) for text in texts]
        scores = self.score_of([option.sentence for some in options for option in some])
        ends = np.cumsum([len(some) for some in options])
        rows: list[tuple[str, str, str, str, float, float, int]] = []
        for i, some in enumerate(options):
            mine = scores[ends[i] - len(some) : ends[i]]
            best = int(mine.argmax()) if len(mine) else -1
            status, after, shown = Status.NOT_FOUND, float(mine[best]) if some else float(before[i]), ("", "", "")
            if before[i] >= self.threshold:
                status, after = Status.ACCEPTED, float(before[i])
            elif some and after >= self.threshold + GUARD:  # also when it is scored in another batch
                status, shown = Status.FOUND, (some[best].sentence, some[best].word, some[best].antonym)
            rows.append((status, *shown, float(before[i]), after, len(some)))
        index = sentences.index if isinstance(sentences, pd.Series) else None
        columns = ["status", "replacement", "word", "antonym", "before", "after", "candidates"]
        return pd.DataFrame(rows, columns=columns, index=index)

    # -- words and ids ----------------------------------------------------------------------------------------

    def _changes(self, words: Sequence[str]) -> list[tuple[int, str]]:
        """Positions and what may come there, the first `most` in reading order."""
        found = []
        for position, word in enumerate(words):
            for antonym in self.candidates.get(word.lower(), ()):
                found.append((position, antonym))
                if len(found) == self.most:
                    return found
        return found

    def _learn_words(self, texts: Sequence[str]) -> tuple[dict[str, int], Tensor]:
        """Ids of all words of the texts and of their candidates; and which ids the texts themselves hold."""
        own = {word for text in texts for word in text.lower().split()}
        brought = {antonym for word in own for antonym in self.candidates.get(word, ())} - own
        vocabulary = {word: UNKNOWN + 1 + i for i, word in enumerate([*sorted(own), *sorted(brought)])}
        seen = torch.zeros(UNKNOWN + 1 + len(vocabulary), dtype=torch.bool)
        seen[UNKNOWN + 1 : UNKNOWN + 1 + len(own)] = True
        return vocabulary, seen

    def _ids(self, words: Iterable[str]) -> list[int]:
        return [self.vocabulary_.get(word.lower(), UNKNOWN) for word in words]

    def _encode(self, texts: Sequence[str]) -> Tensor:
        return _pad(self._ids(text.split()) for text in texts)

    def _texts(self, texts: Sequence[str], labels: np.ndarray) -> Texts:
        out, into = [], []
        for text in texts:
            words = text.split()
            changes = self._changes(words)
            out.append(self._ids(words[position] for position, _ in changes))
            into.append(self._ids(antonym for _, antonym in changes))
        y = torch.as_tensor(labels, dtype=torch.float32)
        return Texts(self._encode(texts), y, Swaps(_pad(iter(out)), _pad(iter(into))))

    def _check(self) -> None:
        check_parameters(self)
        for word, others in self.candidates.items():
            listed = isinstance(others, Iterable) and not isinstance(others, str)
            if not listed or not all(map(_is_word, (word, *others))):
                raise TrainingError(
                    f"the candidates {others!r} of {word!r} are not single words in lower case.", hint=CANDIDATES
                )


def read_sentences(sentences: Any) -> list[str]:
    """A list of strings; refuses one bare string, tables, and values that are no strings."""
    if isinstance(sentences, (str, pd.DataFrame)):
        kind = type(sentences).__name__
        raise TrainingError(f"a {kind} is not a list of sentences.", hint="pass a list or a Series of strings.")
    texts = list(sentences)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TrainingError(f"sentence {i} is {text!r}, which is no text.", hint="drop or fill missing sentences.")
    return texts


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value == value.lower() and len(value.split()) == 1


def _pad(rows: Iterator[list[int]]) -> Tensor:
    """(n, longest), with PADDING behind the shorter rows."""
    ragged = list(rows)
    ids = np.zeros((len(ragged), max(1, max(map(len, ragged), default=1))), dtype=np.int64)
    for i, row in enumerate(ragged):
        ids[i, : len(row)] = row
    return torch.as_tensor(ids)
