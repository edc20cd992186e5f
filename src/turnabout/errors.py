"""What can go wrong, said so that the reader knows what to do next."""

from __future__ import annotations


class TurnaboutError(ValueError):
    """Base of every error turnabout raises on purpose; the message ends with a hint."""

    def __init__(self, message: str, hint: str = ""):
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n\nHint: {hint}" if hint else message)

    def __reduce__(self) -> tuple[type[TurnaboutError], tuple[str, str]]:
        return type(self), (self.message, self.hint)


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
