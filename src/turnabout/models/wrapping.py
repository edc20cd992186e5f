"""`wrap`: any decision maker becomes a Model."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from turnabout.documents import shown
from turnabout.errors import ModelError
from turnabout.models.decision import ClassDecision, check_threshold
from turnabout.models.estimators import is_estimator, wrap_estimator
from turnabout.models.favourable import Guess
from turnabout.models.functions import wrap_function
from turnabout.models.model import Model
from turnabout.models.modules import Output, wrap_module
from turnabout.models.unseen import UnseenLevels, mark_unseen
from turnabout.schema import Schema, as_frame


def wrap(
    model: Any,
    schema: Schema,
    threshold: float | None = None,
    *,
    target: object = None,
    target_range: tuple[float | None, float | None] | None = None,
    background: Any = None,
    output: Output | None = None,
    unseen_levels: UnseenLevels | None = None,
) -> Model:
    """Wrap a decision maker so that a non-negative margin is a yes.

    What it is made of is looked at once. Linear models, ReLU nets and trees, bare or behind preprocessing that acts
    on one feature at a time, get a compiled form; it is compared with the original here, and is not used if the two
    disagree. `model.notes` tells what was found. `model.judge` always asks the original. A model that is wrapped
    already comes back as it is; it takes no further arguments.

    Parameters
    ----------
    model : a fitted scikit-learn estimator or Pipeline on raw columns; an XGBoost, LightGBM or CatBoost estimator; a
        torch module on encoded rows (n, d), or an estimator around one, such as `turnabout.train.Pare`; or any
        function from a table to P(yes).
    schema : the columns of a row and how they are encoded.
    threshold : the least P(yes) that is a yes. None: the model's own predict decides (0.5 for a function).
    target : the class that is a yes; for a torch module, its index. By default the second of two classes, unless its
        name reads as a no ("deny", "default"); needed there, and where there are more. 1 for a function says that it
        returns P(yes), whatever labels say.
    target_range : (low, high) of a regressor's predictions that are a yes; None leaves a side open.
    background : rows on which a compiled form is checked, beside random legal ones; its column types are also those
        the model is handed (pandas categoricals).
    output : whether a torch module returns a "logit" or a "probability"; found out by default.
    unseen_levels : levels that the schema lists and training did not have, as far as encoders, boosters and the
        background tell, are not recommended ("avoid", the default); "allow" consents to those that the model answers
        about. `model.unseen` holds them.
    """
    if isinstance(model, Model):
        given = {"threshold": threshold, "target": target, "target_range": target_range, "background": background}
        _check_rewrap(model, schema, given | {"output": output, "unseen_levels": unseen_levels})
        return model
    if not isinstance(schema, Schema):
        what = f"the class {schema.__name__}" if isinstance(schema, type) else type(schema).__name__
        raise ModelError(
            f"the second argument of wrap is a Schema, not {what}.",
            hint="Schema.infer(table) drafts one: wrap(model, schema).",
        )
    if isinstance(getattr(model, "schema", None), Schema) and is_estimator(model):  # one of turnabout.train
        model, threshold, output = _unpack(model, schema, threshold, output)
    if unseen_levels is not None and not (isinstance(unseen_levels, str) and unseen_levels in ("avoid", "allow")):
        raise ModelError(f"unseen_levels={shown(unseen_levels)} is not a choice.", hint='use "avoid" or "allow".')
    rows = None if background is None else as_frame(background)
    wrapped = _wrap(model, schema, check_threshold(threshold), target, target_range, rows, output)
    wrapped.guessed = None if target is not None or target_range is not None else _guess(wrapped)
    return mark_unseen(wrapped, model, rows, unseen_levels or "avoid")


def _wrap(
    model: Any,
    schema: Schema,
    threshold: float | None,
    target: object,
    target_range: object,
    rows: pd.DataFrame | None,
    output: Output | None,
) -> Model:
    """By what kind of model it is."""
    if isinstance(model, torch.nn.Module):
        return wrap_module(model, schema, threshold, target, target_range, rows, output)
    if output is not None:
        raise ModelError("output= is for torch modules only.", hint="leave it out.")
    if isinstance(model, type):
        raise ModelError(
            f"{model.__name__} is a class, not a fitted model.", hint="make an instance, fit it, then wrap it."
        )
    if is_estimator(model):
        return wrap_estimator(model, schema, threshold, target, target_range, rows)
    if callable(model):
        return wrap_function(model, schema, threshold, target, target_range, rows)
    raise ModelError(
        f"{type(model).__name__} is not a model turnabout can ask.",
        hint="pass a fitted estimator with predict_proba, a torch module, or a function from a table to P(yes).",
    )


def _guess(model: Model) -> Guess:
    """The class that was taken for a yes, of two; a function has none."""
    decision = getattr(model._judge, "decision", None)
    if not isinstance(decision, ClassDecision):
        return Guess(1)
    return Guess(decision.labels[decision.yes], decision.labels[1 - decision.yes])


def _unpack(
    model: Any, schema: Schema, threshold: float | None, output: Output | None
) -> tuple[Any, float | None, Output | None]:
    """What is inside an estimator of turnabout.train, so that searches can see into it, and how it decides."""
    if not model.schema.encodes_like(schema):
        raise ModelError(
            f"{type(model).__name__} was trained with another schema.", hint="wrap it with its own: model.schema."
        )
    own = getattr(model, "threshold", None) if threshold is None else threshold
    if isinstance(network := getattr(model, "module_", None), torch.nn.Module):
        return network, own, output or "logit"
    return getattr(model, "estimator_", model), own, output


def _check_rewrap(model: Model, schema: Schema, given: dict[str, object]) -> None:
    """A wrapped model comes back as it is, so nothing may be asked of it that it is not."""
    hint = "wrap the original model with these arguments instead."
    if ignored := [name for name, value in given.items() if value is not None]:
        raise ModelError(f"the model is wrapped already, so {ignored[0]}= would be ignored.", hint=hint)
    if schema != model.schema:
        raise ModelError("the model is wrapped already, with another schema.", hint=hint)
