"""How far each feature may move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from turnabout.errors import RuleError
from turnabout.rules.regions.around import Around
from turnabout.rules.regions.region import BoundRegion, Region, encoded_reach, read_number, read_reach
from turnabout.rules.rule import check_name, find_feature
from turnabout.schema import Binary, Scalar, Schema
from turnabout.typing import Tensor


@dataclass(frozen=True, repr=False)
class Box(Region):
    """Each feature changes by at most its reach.

        |new_f - old_f|  <=  reach_f                                                                           (1)

    The usual region: plans within what people manage. Features that are not named do not move.

    Parameters
    ----------
    reach : the most each feature may change, in its own units: an ordinal in positions, and any reach of 1 or more
        lets a binary or a category switch. None: everything the schema lets move, as far as it lets.
    name : how to call the region in reports; its sentence when None.
    """

    kind: ClassVar[str] = "box"
    reach: Mapping[str, float] | None = field(default=None, hash=False)
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", read_reach(self.reach, "Box"))
        object.__setattr__(self, "name", check_name(self.name, "Box"))

    @classmethod
    def measured(
        cls, people: Any, schema: Schema, deviations: float = 0.75, features: Iterable[str] | None = None
    ) -> Box:
        """The box that reaches some standard deviations of each column of a table.

        Features: those named, or all that the schema lets move. A switch has no size in deviations, so a binary or a
        category may simply switch.
        """
        deviations = read_number(deviations, "deviations of a measured Box", "use a number above 0.", above=True)
        names = [f.name for f in schema if f.moves != "fixed"] if features is None else list(features)
        x = schema.encode(people)
        reach: dict[str, float] = {}
        for name in names:
            f, feature = find_feature(schema, name, "measured box")
            if not isinstance(feature, Scalar) or isinstance(feature, Binary):
                reach[name] = 1.0
                continue
            s = schema.slices[f]
            seen = x[x[:, s.stop - 1] < 0.5, s.start] if feature.missing else x[:, s.start]
            if len(seen) < 2:
                raise RuleError(
                    f"the spread of '{name}' cannot be measured on {len(seen)} people.",
                    hint="pass the training table, or write the reach yourself: Box({...}).",
                )
            reach[name] = deviations * float(seen.std()) * feature.span
        return cls(reach)

    def bind(self, schema: Schema) -> BoundBox:
        return BoundBox(schema, str(self), encoded_reach(schema, self.reach, str(self)))

    def __str__(self) -> str:
        return self.name if self.name is not None else reach_in_words(self.reach)


class BoundBox(BoundRegion):
    """A box over encoded people."""

    separable = True

    def around(self, x: Tensor) -> Around:
        return Around(*self._frame(x))


def reach_in_words(reach: Mapping[str, float] | None) -> str:
    """The sentence of a box."""
    if reach is None:
        return "everything changes as far as the schema lets it"
    limits = [(name, f"by at most {value:.6g}") for name, value in reach.items()]
    return "; ".join(f"{name} {'' if place else 'changes '}{limit}" for place, (name, limit) in enumerate(limits))
