"""The ceremony, written once: the question, the search, the judge, the answer. Knows no one method."""

from turnabout.core.attribution import Attribution, ConceptSpans, Pixels
from turnabout.core.editor_schemas import editor_schema
from turnabout.core.method import Method
from turnabout.core.plan import REASONS, Plans, Replay, replay
from turnabout.core.problem import Problem
from turnabout.core.problem_file import ProblemFile
from turnabout.core.result import Proposal, Recourse, Status, json_schema
from turnabout.core.run import Run
from turnabout.core.verify import GUARD, Verification, verify

__all__ = [
    "GUARD",
    "REASONS",
    "Attribution",
    "Method",
    "Pixels",
    "Plans",
    "Problem",
    "ProblemFile",
    "Proposal",
    "Recourse",
    "Replay",
    "Run",
    "Status",
    "Verification",
    "ConceptSpans",
    "editor_schema",
    "json_schema",
    "replay",
    "verify",
]


def __dir__() -> list[str]:
    return __all__
