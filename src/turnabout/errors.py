"""What can go wrong, said so that the reader knows what to do next."""

from __future__ import annotations

from typing import Any, TypeVar, cast


class TurnaboutError(ValueError):
    """Base of every error turnabout raises on purpose; the message ends with a hint."""

    def __init__(self, message: str, hint: str = ""):
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n\nHint: {hint}" if hint else message)

    def __reduce__(self) -> tuple[type[TurnaboutError], tuple[str, str]]:
        return type(self), (self.message, self.hint)

    def __str__(self) -> str:  # also where the error is a KeyError, which would quote its message
        return str(self.args[0])


class SchemaError(TurnaboutError):
    """A table does not fit its schema, or a schema contradicts itself."""


class RuleError(TurnaboutError):
    """A rule names something that does not exist or that nobody can satisfy."""


class ActionError(TurnaboutError):
    """An action names something that does not exist, contradicts itself or cannot be read."""


class ModelError(TurnaboutError):
    """The model cannot be asked, or its answers make no sense."""


class ProblemError(TurnaboutError):
    """The parts of a problem do not fit together."""


class MethodError(TurnaboutError):
    """A method is used in a way it does not support."""


class DataError(TurnaboutError):
    """A data set is absent, or is not the file it claims to be."""


class TrainingError(TurnaboutError):
    """A model cannot be trained, calibrated or certified as asked."""


class ExplainError(TurnaboutError):
    """An explanation cannot be given as asked."""


class AuditError(TurnaboutError):
    """An audit cannot answer as asked."""


class BenchError(TurnaboutError):
    """A comparison names something that does not exist, or its files cannot be read."""


Error = TypeVar("Error", bound=TurnaboutError)


_BOTH: dict[tuple[type, type], type] = {}


def also(error: type[Error], second: type[Exception]) -> type[Error]:
    """An error that is another one too: `also(SchemaError, KeyError)` for a name that is not there."""
    if (error, second) not in _BOTH:
        body: dict[str, Any] = {"__doc__": error.__doc__, "__module__": __name__, "__reduce__": _reduce}
        _BOTH[error, second] = type(error.__name__, (error, second), body)
    return cast("type[Error]", _BOTH[error, second])


def _reduce(error: TurnaboutError) -> tuple[Any, ...]:
    return _rebuild, (*type(error).__bases__, error.message, error.hint)


def _rebuild(error: type[Error], second: type[Exception], message: str, hint: str) -> Error:
    return also(error, second)(message, hint)
