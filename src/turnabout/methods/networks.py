"""The family of methods that train a network on the background: trained once, shared, saved and loaded.

A method of the family builds an untrained network (`_network`) and trains it (`_train`). The base keeps one network for
each background and each set of `training` parameters: asking the same people another question (other limits, another
cut-off, fewer features) trains nothing again.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from turnabout.core import Method, Problem
from turnabout.errors import MethodError
from turnabout.provenance import versions
from turnabout.typing import Tensor

FORMAT = "turnabout.network.1"
_trained: WeakIdKeyDictionary = WeakIdKeyDictionary()  # background rows -> {key: network}, as long as the rows live


def trained_once(rows: Tensor, key: tuple[Any, ...], make: Callable[[], nn.Module]) -> nn.Module:
    """The network of a background and a key, made where there is none yet; in double precision, not to be changed."""
    kept = _trained.setdefault(rows, {})
    if key not in kept:
        kept[key] = make().to(rows.device).double().eval().requires_grad_(False)
    return cast(nn.Module, kept[key])


def fingerprint(problem: Problem) -> str:
    """A short text that changes with what a network depends on of a schema: the encoding, and what is fixed."""
    told = [(f.encoding(), f.moves == "fixed") for f in problem.declared_schema.features]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def digest(weights: dict[str, Tensor]) -> str:
    """A short text that changes with every bit of some tensors."""
    told = hashlib.sha256()
    for name in sorted(weights):
        told.update(f"{name} {weights[name].dtype} {tuple(weights[name].shape)}".encode())
        told.update(weights[name].contiguous().numpy().tobytes())
    return told.hexdigest()[:16]


@dataclass(frozen=True)
class SavedNetwork:
    """What a file of a trained method holds."""

    method: str
    parameters: dict[str, Any]
    fingerprint: str  # of the schema it was trained with
    digest: str
    weights: dict[str, Tensor]


class NetworkMethod(Method):
    """A method with a network that is trained on the background rows.

    Class attributes
    ----------------
    training : names of the parameters that the network depends on; the others may differ between methods that share it.
    """

    needs_background = True
    training: ClassVar[tuple[str, ...]] = ()
    seed: int

    network_: nn.Module
    _saved: SavedNetwork | None = None  # from a file: then `fit` trains nothing

    @abstractmethod
    def _network(self, problem: Problem) -> nn.Module:
        """An untrained network, in single precision on the CPU, with first weights by `seed`."""

    @abstractmethod
    def _train(self, network: nn.Module, problem: Problem) -> None:
        """Train it in place on the problem's background; tells `self._training`, if anybody, of its steps."""

    def _key(self, problem: Problem) -> tuple[Any, ...]:
        """What the trained network depends on, apart from the background rows."""
        file = "" if self._saved is None else self._saved.digest
        told = (repr(getattr(self, name)) for name in self.training)
        return (self._network.__qualname__, self._train.__qualname__, file, *told)

    def _fit(self, problem: Problem) -> None:
        rows, saved = problem.background_x, self._saved
        assert rows is not None

        def make() -> nn.Module:
            return self._from_data(problem, rows) if saved is None else self._from_file(problem, saved)

        self.network_ = trained_once(rows, self._key(problem), make)

    def _from_data(self, problem: Problem, rows: Tensor) -> nn.Module:
        if len(rows) < 2:
            raise MethodError(
                f"{type(self).__name__} trains on the background, which has {len(rows)} row.",
                hint="give a background of at least a few hundred people.",
            )
        network = self._network(problem).to(rows.device)
        self._train(network, problem)
        return network

    def _from_file(self, problem: Problem, saved: SavedNetwork) -> nn.Module:
        if fingerprint(problem) != saved.fingerprint:
            raise MethodError(
                f"this {type(self).__name__} was trained on rows of another schema.",
                hint="fit it with the schema it was trained with, the same features fixed, or train a new one.",
            )
        network = self._network(problem)
        try:
            network.load_state_dict(saved.weights)
        except RuntimeError as error:
            raise MethodError(
                f"the weights do not fit {self!r}: {str(error).splitlines()[-1].strip()}",
                hint="the file is of another version, or of other rows; train a new one.",
            ) from None
        return network

    def clone(self) -> Self:
        """An unfitted copy with the same parameters; of a loaded method, one that takes the same network."""
        copied = super().clone()
        copied._saved = self._saved
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "network_") and self.problem_.background_x is not None:
            kept = _trained.setdefault(self.problem_.background_x, {})
            kept.setdefault(self._key(self.problem_), self.network_)

    # -- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained network and the parameters as a safetensors file, which `methods.load` reads."""
        if not hasattr(self, "network_"):
            raise MethodError(f"{type(self).__name__} is not trained yet.", hint="call fit(problem) before save(path).")
        from safetensors.torch import save_file

        weights = {
            name: (value.float() if value.is_floating_point() else value).cpu().contiguous()
            for name, value in self.network_.state_dict().items()
        }  # single precision is what was trained
        told = {
            "format": FORMAT,
            "method": type(self).__name__,
            "parameters": json.dumps(self.get_params()),
            "schema": fingerprint(self.problem_),
            "digest": digest(weights),
            "versions": json.dumps(versions()),
        }
        save_file(weights, os.fspath(path), metadata=told)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A method whose `fit` trains nothing: it takes the network of a file that `save` wrote."""
        saved = read_network(path)
        if saved.method != cls.__name__:
            raise MethodError(
                f"{os.fspath(path)} holds a {saved.method}, not a {cls.__name__}.",
                hint="turnabout.methods.load reads any of them.",
            )
        try:
            method = cls(**saved.parameters)
        except TypeError as error:
            raise MethodError(
                f"{os.fspath(path)} holds a {cls.__name__} of another version: {error}.",
                hint="fit and save it again with this version.",
            ) from None
        method._saved = saved
        return method


def load(path: str | os.PathLike[str]) -> NetworkMethod:
    """The method of a file that `save` of any of them wrote."""
    from turnabout.methods import ALL

    name = read_network(path).method
    known = [cls for cls in ALL if issubclass(cls, NetworkMethod) and cls.__name__ == name]
    if not known:
        raise MethodError(
            f"{os.fspath(path)} holds a {name}, which is none of turnabout's methods.",
            hint=f"where {name} is a class of yours, {name}.load(path) reads it.",
        )
    return known[0].load(path)


def read_network(path: str | os.PathLike[str]) -> SavedNetwork:
    """What is in a file that `save` wrote."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise MethodError(f"there is no file {os.fspath(path)}.", hint="method.save(path) writes one.")
    try:
        with safe_open(os.fspath(path), framework="pt") as opened:
            told = opened.metadata() or {}
            weights: dict[str, torch.Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise MethodError(
            f"{os.fspath(path)} is no safetensors file: {error}.", hint="give a file that method.save(path) wrote."
        ) from None
    if told.get("format") != FORMAT:
        raise MethodError(
            f"{os.fspath(path)} holds tensors, but no network of a turnabout method.",
            hint="give a file that method.save(path) wrote.",
        )
    if digest(weights) != told["digest"]:
        raise MethodError(
            f"{os.fspath(path)} is damaged: its weights are not those that were saved.", hint="save it again."
        )
    given = {n: tuple(v) if isinstance(v, list) else v for n, v in json.loads(told["parameters"]).items()}
    return SavedNetwork(told["method"], given, told["schema"], told["digest"], weights)
