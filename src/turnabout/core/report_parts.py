"""What reports tell alike: the model, the answer, and who could not be read."""

from __future__ import annotations

import numpy as np
import pandas as pd

from turnabout.core.result import Recourse
from turnabout.models import Model
from turnabout.schema import Schema
from turnabout.typing import Json


def model_part(model: Model) -> Json:
    """What a report says of a model: its title, and which of its columns may move."""
    features = [{"name": f.name, "title": f.title, "moves": f.moves} for f in model.schema]
    return {"title": repr(model), "features": features}


def answer_part(answer: Recourse) -> Json:
    """What a report says of an answer: who made it, what a yes is, and how many people got what."""
    return {"made_by": answer.made_by, "yes": answer.yes, "counts": answer.counts(), "seconds": answer.seconds}


def readable_people(people: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, np.ndarray, tuple[str, ...]]:
    """Those whose rows the schema can read, (n,) who they are, and a note about the others.

    A report is about people, not cells: people who cannot be read are left out. Raises where none can be read.
    """
    reading = schema.read(people)
    lost = np.asarray(reading.unreadable.any(1))
    if not lost.any():
        return people, ~lost, ()
    first = int(lost.argmax())
    complaint = reading.complaint(first)
    if lost.all():
        raise complaint
    verb = "is" if lost.sum() == 1 else "are"
    note = f"{lost.sum()} of {len(lost)} people cannot be read and {verb} left out; person {people.index[first]!r}: "
    return reading.readable(people, np.flatnonzero(~lost)), ~lost, (note + complaint.message,)
