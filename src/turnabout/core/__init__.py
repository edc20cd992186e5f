"""The ceremony, written once: the question, the search, the judge, the answer. Knows no one method."""

from turnabout.core.method import Method
from turnabout.core.problem import Problem
from turnabout.core.result import Proposal, Recourse, Status, json_schema
from turnabout.core.run import Run
from turnabout.core.verify import GUARD, Verdict, verify

__all__ = ["GUARD", "Method", "Problem", "Proposal", "Recourse", "Run", "Status", "Verdict", "json_schema", "verify"]
