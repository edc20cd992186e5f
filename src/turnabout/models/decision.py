"""When an answer of the original is a yes: from its outputs to one signed margin."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from turnabout.errors import ModelError
from turnabout.models.model import Scale
from turnabout.typing import Tensor

TIE = 1e-9  # margins this near to zero are settled by the original's own predict
_LOG_TINY = math.log(np.finfo(np.float64).tiny)

Ask = Literal["predict_proba", "decision_function", "predict"]


def logit(p: np.ndarray | float) -> np.ndarray:
    """log p / (1 - p), finite at 0 and 1; NaN stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p), _LOG_TINY) - np.log(np.maximum(1.0 - p, np.finfo(np.float64).epsneg))


def settle(margin: np.ndarray, yes: np.ndarray) -> np.ndarray:
    """Margins whose sign is the given one; those of the wrong sign become the nearest number of the right one."""
    return np.where(yes, np.maximum(margin, 0.0), np.minimum(margin, -np.finfo(np.float64).tiny))


def check_threshold(threshold: float | None) -> float | None:
    """A cut-off strictly between 0 and 1, or None."""
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float, np.number)) or not 0.0 < threshold < 1.0:
        raise ModelError(
            f"threshold={threshold!r} is not a probability strictly between 0 and 1.",
            hint="pass the lowest P(yes) that is a yes, e.g. threshold=0.5, or None for the model's own predict.",
        )
    return float(threshold)


@dataclass(frozen=True)
class Decision(ABC):
    """Turns outputs of the original (n, width) into margins, and compiled scores into the same margins."""

    scale: Scale

    @property
    @abstractmethod
    def ask(self) -> Ask:
        """The method of the original that is asked."""

    @property
    @abstractmethod
    def rule(self) -> str:
        """When the answer is yes, in words."""

    @property
    def cut(self) -> float | None:
        """The least P(yes) that is a yes; None where the margin does not follow from P(yes)."""
        return None

    @abstractmethod
    def margins(self, out: np.ndarray) -> np.ndarray:
        """Outputs of the original, (n,) or (n, C) -> margins (n,)."""

    @abstractmethod
    def affine(self, width: int) -> tuple[np.ndarray, float] | None:
        """(c, c0) with margin = scores @ c + c0 for scores of this width, or None if the margin bends."""

    def from_scores(self, scores: Tensor) -> Tensor:
        """Compiled scores (..., width) -> margins (...), with autograd."""
        flat = self.affine(scores.shape[-1])
        if flat is not None:
            return scores @ torch.as_tensor(flat[0], dtype=scores.dtype, device=scores.device) + flat[1]
        return self._bent(scores)

    def _bent(self, scores: Tensor) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class ClassDecision(Decision):
    """Shared by classifiers: which class is the yes, and what settles a tie."""

    labels: tuple[object, ...]
    yes: int

    @property
    def sign(self) -> float:
        """+1 when the second class is the yes, -1 when the first is."""
        return 1.0 if self.yes == 1 else -1.0

    def is_yes(self, predicted: np.ndarray) -> np.ndarray:
        """Labels the original predicts -> bool."""
        return np.asarray(predicted).reshape(-1) == self.labels[self.yes]

    def _against_others(self, scores: Tensor) -> Tensor:
        others = [i for i in range(scores.shape[-1]) if i != self.yes]
        return scores[..., self.yes] - scores[..., others].amax(-1)


@dataclass(frozen=True)
class ByProbability(ClassDecision):
    """Yes when P(yes) reaches the cut-off; without one, when the yes class wins."""

    threshold: float | None

    @property
    def ask(self) -> Ask:
        return "predict_proba"

    @property
    def rule(self) -> str:
        label = self.labels[self.yes]
        if self.threshold is not None:
            return f"P({label}) >= {self.threshold:g}"
        return f"predict is {label!r}"

    @property
    def cut(self) -> float | None:
        if self.threshold is None:
            return 0.5 if len(self.labels) == 2 else None
        return self.threshold

    def margins(self, out: np.ndarray) -> np.ndarray:
        p = out[:, self.yes]
        if self.threshold is None and len(self.labels) > 2:
            best = np.delete(out, self.yes, axis=1).max(axis=1)
            if self.scale != "log-odds":
                return p.astype(np.float64) - best
            floor = np.finfo(np.float64).tiny
            return np.log(np.maximum(p.astype(np.float64), floor)) - np.log(np.maximum(best.astype(np.float64), floor))
        cut = 0.5 if self.threshold is None else self.threshold
        margin = logit(p) - logit(cut) if self.scale == "log-odds" else p.astype(np.float64) - cut
        return margin if self.threshold is None else settle(margin, p >= cut)  # p >= cut in the model's own precision

    def affine(self, width: int) -> tuple[np.ndarray, float] | None:
        shift = 0.0 if self.threshold is None else -float(logit(self.threshold))
        if width == 1:
            return np.array([self.sign]), shift
        if width == 2:
            return np.array([-self.sign, self.sign]), shift
        return None

    def _bent(self, scores: Tensor) -> Tensor:
        if self.threshold is None:
            return self._against_others(scores)
        others = [i for i in range(scores.shape[-1]) if i != self.yes]
        odds = scores[..., self.yes] - scores[..., others].logsumexp(-1)
        return odds - float(logit(self.threshold))


@dataclass(frozen=True)
class ByScore(ClassDecision):
    """Yes when the decision value of the yes class wins."""

    @property
    def ask(self) -> Ask:
        return "decision_function"

    @property
    def cut(self) -> float | None:
        return 0.5 if self.scale == "log-odds" and len(self.labels) == 2 else None

    @property
    def rule(self) -> str:
        return f"predict is {self.labels[self.yes]!r}"

    def margins(self, out: np.ndarray) -> np.ndarray:
        out = out.astype(np.float64)
        if out.ndim == 1 or out.shape[1] == 1:
            return self.sign * out.reshape(-1)
        return out[:, self.yes] - np.delete(out, self.yes, axis=1).max(axis=1)

    def affine(self, width: int) -> tuple[np.ndarray, float] | None:
        if width == 1:
            return np.array([self.sign]), 0.0
        return (np.array([-self.sign, self.sign]), 0.0) if width == 2 else None

    def _bent(self, scores: Tensor) -> Tensor:
        return self._against_others(scores)


@dataclass(frozen=True)
class ByLabel(ClassDecision):
    """Yes when predict says so; nothing is known of how clearly, so the margin is 0.5 or -0.5."""

    @property
    def ask(self) -> Ask:
        return "predict"

    @property
    def rule(self) -> str:
        return f"predict is {self.labels[self.yes]!r}"

    def margins(self, out: np.ndarray) -> np.ndarray:
        return np.where(self.is_yes(out), 0.5, -0.5)

    def affine(self, width: int) -> tuple[np.ndarray, float] | None:
        return None


@dataclass(frozen=True)
class InRange(Decision):
    """Yes when a predicted amount lies in [low, high]; margin = min(y - low, high - y)."""

    low: float
    high: float

    @property
    def ask(self) -> Ask:
        return "predict"

    @property
    def rule(self) -> str:
        if math.isinf(self.high):
            return f"prediction >= {self.low:g}"
        if math.isinf(self.low):
            return f"prediction <= {self.high:g}"
        return f"{self.low:g} <= prediction <= {self.high:g}"

    @classmethod
    def of(cls, target_range: object) -> InRange:
        """Read (low, high), with None or an infinity for an open side."""
        try:
            ends = list(target_range)  # type: ignore[call-overload]
            low = -math.inf if ends[0] is None else float(ends[0])
            high = math.inf if ends[1] is None else float(ends[1])
        except (TypeError, ValueError, IndexError):
            low = high = math.nan
        if not low <= high or (math.isinf(low) and math.isinf(high)):
            raise ModelError(
                f"target_range={target_range!r} is not a range of predictions.",
                hint="pass (low, high) with low <= high; None leaves one side open: target_range=(3000, None).",
            )
        return cls("target", low, high)

    def margins(self, out: np.ndarray) -> np.ndarray:
        y = out.astype(np.float64).reshape(-1)
        return np.minimum(y - self.low, self.high - y)

    def affine(self, width: int) -> tuple[np.ndarray, float] | None:
        if math.isinf(self.high):
            return np.array([1.0]), -self.low
        if math.isinf(self.low):
            return np.array([-1.0]), self.high
        return None

    def _bent(self, scores: Tensor) -> Tensor:
        y = scores[..., 0]
        return torch.minimum(y - self.low, self.high - y)
