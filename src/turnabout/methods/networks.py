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
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from turnabout.core import Method, Problem
from turnabout.errors import MethodError
from turnabout.provenance import versions
from turnabout.schema import Schema
from turnabout.typing import Tensor

FORMAT = "turnabout.network.1"
_trained: WeakIdKeyDictionary = WeakIdKeyDictionary()  # background rows -> {key: network}, as long as the rows live


def fingerprint(schema: Schema) -> str:
    """A short text that changes with whatever the encoding of rows depends on."""
    text = json.dumps([f.encoding() for f in schema.features], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    _weights: dict[str, Tensor] | None = None  # loaded from a file, until they are put into a network
    _fingerprint: str = ""  # of the schema that they were trained with

    @abstractmethod
    def _network(self, problem: Problem) -> nn.Module:
        """An untrained network, in single precision on the CPU, with first weights by `seed`."""

    @abstractmethod
    def _train(self, network: nn.Module, problem: Problem) -> None:
        """Train it in place on the problem's background; tells `self._training`, if anybody, of its steps."""

    def _key(self, problem: Problem) -> tuple[Any, ...]:
        """What the trained network depends on, apart from the background rows."""
        return (self._network.__qualname__, self._train.__qualname__, *(repr(getattr(self, n)) for n in self.training))

    def _fit(self, problem: Problem) -> None:
        rows = problem.background_x
        assert rows is not None
        kept = _trained.setdefault(rows, {})
        key = self._key(problem)
        if self._weights is not None:
            kept[key] = self._loaded(problem, self._weights)
        elif key not in kept:
            if len(rows) < 2:
                raise MethodError(
                    f"{type(self).__name__} trains on the background, which has {len(rows)} row.",
                    hint="give a background of at least a few hundred people.",
                )
            network = self._network(problem).to(rows.device)
            self._train(network, problem)
            kept[key] = network.double().eval().requires_grad_(False)
        self.network_ = kept[key]

    def _loaded(self, problem: Problem, weights: dict[str, Tensor]) -> nn.Module:
        if fingerprint(problem.schema) != self._fingerprint:
            raise MethodError(
                f"this {type(self).__name__} was trained on rows of another schema.",
                hint="load it with the schema it was trained with, or fit a new one.",
            )
        network = self._network(problem)
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise MethodError(
                f"the weights do not fit {self!r}: {str(error).splitlines()[-1].strip()}",
                hint="the file is damaged, or of another version; fit a new one.",
            ) from None
        return network.double().eval().requires_grad_(False).to(self.device_)

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

        state = {
            name: (value.float() if value.is_floating_point() else value).cpu().contiguous()
            for name, value in self.network_.state_dict().items()
        }  # single precision is what was trained
        told = {
            "format": FORMAT,
            "method": type(self).__name__,
            "parameters": json.dumps(self.get_params()),
            "schema": fingerprint(self.problem_.schema),
            "versions": json.dumps(versions()),
        }
        save_file(state, os.fspath(path), metadata=told)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A method whose `fit` trains nothing: it takes the network of a file that `save` wrote."""
        weights, told = read_network(path)
        if told["method"] != cls.__name__:
            raise MethodError(
                f"{os.fspath(path)} holds a {told['method']}, not a {cls.__name__}.",
                hint="turnabout.methods.load reads any of them.",
            )
        given = {n: tuple(v) if isinstance(v, list) else v for n, v in json.loads(told["parameters"]).items()}
        method = cls(**given)
        method._weights, method._fingerprint = weights, told["schema"]
        return method


def read_network(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file that `save` wrote, and what it says of itself."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise MethodError(f"there is no file {os.fspath(path)}.", hint="NetworkMethod.save(path) writes one.")
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
    return weights, told
