"""Regions: the set of changes a person may make around their row, declared by feature names in their units.

    Box({"hours": 9, "education": 2})                              how far each feature may move
    Budget(12, reach={"hours": 9}, weights={"hours": 1})           and how much all changes may weigh together
    Ball(1.0, scales={"hours": 12.3, "education": 2.6})            a Euclidean distance in units of the scales
    Polytope([({"hours": -1, "education": -4}, 12)])               any inequalities between the changes

A region is a rule, so every method keeps to it, and more: around people it knows the best change along a slope.
"""

from __future__ import annotations

from turnabout.rules.regions.around import Around
from turnabout.rules.regions.ball import AroundBall, Ball, BoundBall
from turnabout.rules.regions.box import BoundBox, Box
from turnabout.rules.regions.budget import AroundBudget, BoundBudget, Budget
from turnabout.rules.regions.polytope import AroundPolytope, BoundPolytope, Polytope
from turnabout.rules.regions.region import BoundRegion, Region, regions_of

__all__ = [
    "Around",
    "AroundBall",
    "AroundBudget",
    "AroundPolytope",
    "Ball",
    "BoundBall",
    "BoundBox",
    "BoundBudget",
    "BoundPolytope",
    "BoundRegion",
    "Box",
    "Budget",
    "Polytope",
    "Region",
    "regions_of",
]
