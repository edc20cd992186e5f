"""Quick, Draw!: is this the whole cat. 512 features (128 lines of four coordinates), one action: add a stroke."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd
import torch

from turnabout.actions import Action, ActionSet, Parameter
from turnabout.models import wrap
from turnabout.schema import Number, Schema
from turnabout.studies.domains.domain import Domain, DomainRecipe
from turnabout.studies.domains.drawing_lines import CATS, LINES, OTHERS, SIZE, STUDIED, stored_cats
from turnabout.studies.domains.drawing_recogniser import Training, recogniser
from turnabout.typing import Tensor

SHORTEST, LONGEST = 0.1, 0.6  # of a stroke, the frame being 1 wide and 1 high
ROOM = {False: 1e-4, True: 6e-3}  # of an allowed length, left free for what printing rounds off; True: whole pixels
CAT_LABEL = 1  # logit of the whole cat
UNUSED = 1 - 1e-9  # an encoded line is not used when all four coordinates lie above: they are 1, but for rounding
NAMES = tuple(f"{c}_{i:03d}" for i in range(1, LINES + 1) for c in ("x1", "y1", "x2", "y2"))


def schema(whole: bool = False) -> Schema:
    """Coordinates in pixels from the top left, x1_001 to y2_128, 256 where a line is not used; all may move."""
    step, decimals = (1.0, None) if whole else (None, 2)
    return Schema(tuple(Number(name, 0, SIZE, step, "pixels", decimals=decimals) for name in NAMES))


def used_lines(x: Tensor) -> Tensor:
    """Encoded drawings (n, 512) -> which of their lines are used (n, 128)."""
    return (x.reshape(len(x), LINES, 4) < UNUSED).any(-1)


def next_line(x: Tensor) -> Tensor:
    """Encoded drawings (n, 512) -> (n, 128), True at the first line that is not used; nowhere if there is none."""
    free = ~used_lines(x)
    return free & (free.cumsum(1) == 1)


def _draw(x: Tensor, r: Tensor) -> Tensor:
    """Write the line r (n, 4) behind the last one, the end with the smaller x first; a full drawing stays as it is."""
    x1, y1, x2, y2 = r.unbind(-1)
    turned = (x2 < x1) | ((x2 == x1) & (y2 < y1))
    line = torch.where(turned.unsqueeze(-1), r[:, [2, 3, 0, 1]], r)
    lines = x.reshape(len(x), LINES, 4)
    return torch.where(next_line(x).unsqueeze(-1), line.to(x.dtype).unsqueeze(1), lines).reshape(x.shape)


def _length(x: Tensor, x_new: Tensor, r: Tensor) -> Tensor:
    """(n,) length of the line that x_new has and x has not, as it stands in x_new."""
    line = (x_new.reshape(len(x), LINES, 4) * next_line(x).unsqueeze(-1)).sum(1)
    return torch.linalg.vector_norm(line[:, 2:] - line[:, :2], dim=-1)


def _conditions(x: Tensor, x_new: Tensor, r: Tensor) -> Tensor:
    """(n, 3) not too short, not too long, and a line was left to write into."""
    length = _length(x, x_new, r)
    left = torch.where(used_lines(x).all(1), -1.0, 1.0).to(length)
    return torch.stack([length - SHORTEST, LONGEST - length, left], 1)


def _start(x: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 4) a stroke over the middle of a line of the drawing, in any direction, shifted into the frame."""
    n, lines = len(x), x.reshape(len(x), LINES, 4)
    used = used_lines(x)
    chances = torch.where(used.any(1, keepdim=True), used, True).to(generator.device, torch.float64)
    which = torch.multinomial(chances, 1, generator=generator).to(x.device)
    line = lines.gather(1, which.unsqueeze(-1).expand(-1, -1, 4))[:, 0]
    angle = 2 * math.pi * torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device)
    half = 0.2 + 0.05 * torch.randn(n, generator=generator, dtype=torch.float64, device=generator.device)
    reach = torch.stack([angle.cos(), angle.sin()], 1) * half.clamp(0.055, 0.29).unsqueeze(1)
    reach = reach.to(x)
    middle = torch.maximum(torch.minimum((line[:, :2] + line[:, 2:]) / 2, 1 - reach.abs()), reach.abs())
    return torch.cat([middle - reach, middle + reach], 1)


def _fit_length(x: Tensor, r: Tensor, room: float) -> Tensor:
    """Strokes (n, 4) stretched or shortened about their middle to an allowed length, and shifted into the frame."""
    middle, half = (r[:, :2] + r[:, 2:]) / 2, (r[:, 2:] - r[:, :2]) / 2
    length = 2 * half.norm(dim=1, keepdim=True)
    still = length < 1e-9
    half = torch.where(still, half.new_tensor([0.5 * SHORTEST, 0.0]), half)
    length = torch.where(still, SHORTEST * torch.ones_like(length), length)
    wanted = length.clamp(SHORTEST + room, LONGEST - room)
    half = half * (wanted / length)
    middle = torch.maximum(torch.minimum(middle, 1 - half.abs()), half.abs())
    return torch.cat([middle - half, middle + half], 1)


def actions(whole: bool = False) -> ActionSet:
    """AddStroke: a straight line between any two points of the frame. It costs its length."""
    stroke = Action.free(
        "AddStroke",
        parameters=[Parameter(name, 0, 1, "of the frame") for name in ("x1", "y1", "x2", "y2")],
        effect=_draw,
        cost=_length,
        precondition=_conditions,
        footprint=NAMES,
        repeatable=True,
        start=_start,
        project=partial(_fit_length, room=ROOM[whole]),
        label="draw a line from ({x1}, {y1}) to ({x2}, {y2})",
    )
    return ActionSet((stroke,))


def _build(contents: tuple[bytes, ...], whole: bool) -> Domain:
    cats, drawings = contents
    columns = schema(whole)
    lines, _ = stored_cats(cats)
    people = pd.DataFrame(lines[list(STUDIED)].reshape(len(STUDIED), -1), index=list(STUDIED), columns=list(NAMES))
    net = recogniser(cats, drawings, Training()).double()
    return Domain(
        name="drawing",
        schema=columns,
        model=wrap(net, columns, target=CAT_LABEL, output="logit", background=people),
        people=people,
        actions=actions(whole),
        about="Ramakrishnan, Lee and Albarghouthi, Synthesizing action sequences for modifying model decisions, AAAI "
        "2020; drawings from github.com/goutham7r/synth-action-seq (MIT) and Quick, Draw! (Google, CC BY 4.0). The "
        "sixteen are jittered copies of one cat, less 3 to 9 of its 94 lines. The published network is not to be had; "
        "this one is trained here the same way, on copies made afresh. Whether a drawing has all 94 lines is all that "
        "the task asks, and the network learns to count them: a drawing that lacks more lines than strokes may be "
        "added stays refused. In the study eleven of the sixteen lack at most six lines, and eleven were solved.",
        published={"solved": 11, "people": 16, "max_steps": 6, "features": 512, "actions": 1, "accuracy": 0.9935},
    )


RECIPE = DomainRecipe(
    name="drawing",
    question="is this the whole cat",
    licence="CC BY 4.0 (drawings), MIT (sample)",
    people=len(STUDIED),
    features=len(NAMES),
    actions=1,
    sources=(CATS, OTHERS),
    build=_build,
)
