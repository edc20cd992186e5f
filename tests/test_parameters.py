"""Parameters that make no sense are refused in one manner; errors are also what Python calls them."""

import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.errors import AuditError, MethodError, SchemaError, TrainingError, TurnaboutError, also
from turnabout.parameters import (
    Choice,
    Each,
    Finite,
    Flag,
    Instance,
    Maybe,
    Named,
    Positive,
    Share,
    Whole,
    checked,
    declared,
    parameters_of,
)

CONSTRAINTS = [
    (Finite(), "a finite number", (0, -1.5, np.float32(2))),
    (Finite(least=0), "a number from 0 up", (0, 7)),
    (Finite(below=3), "a number below 3", (-9, 2.9)),
    (Finite(most=3), "a number at most 3", (3,)),
    (Finite(least=0.5, below=1), "a number from 0.5 up, below 1", (0.5, 0.99)),
    (Positive(), "a number above 0", (1e-9, np.int64(3))),
    (Share(), "a number from 0 to 1", (0, 1, 0.5)),
    (Share(above=0), "a number above 0, at most 1", (0.1, 1)),
    (Share(above=0, below=1), "a number strictly between 0 and 1", (0.5,)),
    (Whole(2), "a whole number from 2 up", (2, np.int32(9))),
    (Whole(0, most=4), "a whole number from 0 to 4", (0, 4)),
    (Whole(2, even=True), "an even number from 2 up", (2, 8)),
    (Flag(), "True or False", (True, np.False_)),
    (Choice("up", "down"), "one of 'up', 'down'", ("up",)),
    (Named(dict, up={}, down={}), "one of 'up', 'down', or a dict", ("up", {})),
    (Instance(ta.Schema), "a Schema", (ta.Schema((ta.Number("income", 0, 9),)),)),
    (Maybe(Whole(1)), "a whole number from 1 up, or None", (None, 1)),
    (Each(Positive()), "a list of 1 or more, each a number above 0", ([1], (0.5, 2))),
]


@pytest.mark.parametrize(("constraint", "what", "good"), CONSTRAINTS, ids=lambda c: getattr(c, "what", None))
def test_a_constraint_says_what_it_allows(constraint, what, good):
    assert constraint.what == what
    for value in good:
        assert constraint.allows(value) and constraint.is_kind(value)
    for value in constraint.nonsense():
        assert not constraint.allows(value)


def test_a_name_stands_for_its_object():
    up, other = {"way": 1}, {"way": 3}
    family = Named(dict, up=up, down={"way": 2})
    assert family.get("up") is up and family.get(other) is other


@checked(AuditError, samples=Whole(1), share=Maybe(Share()), rate=Positive(hint="the paper uses 0.1."))
def _study(samples=100, share=None, *, rate):
    return samples, share, rate


def test_a_function_is_checked_when_it_is_called():
    assert _study(5, rate=1) == (5, None, 1)
    with pytest.raises(AuditError) as error:
        _study(0, rate=1)
    assert str(error.value) == "samples=0 is not a whole number from 1 up.\n\nHint: the default is 100."
    with pytest.raises(AuditError, match=r"share=2 is not a number from 0 to 1, or None") as error:
        _study(share=2, rate=1)
    assert not isinstance(error.value, TypeError)
    with pytest.raises(
        AuditError, match=r"rate='fast' is not a number above 0[\s\S]*Hint: the paper uses 0.1."
    ) as error:
        _study(rate="fast")
    assert isinstance(error.value, TypeError)
    with pytest.raises(TypeError, match="missing"):
        _study()
    assert _study.__name__ == "_study"


@dataclass(frozen=True, slots=True)
@checked(AuditError, size=Positive())
class _Small:
    size: float = 1.0


@dataclass(frozen=True)
@checked(AuditError, times=Whole(1))
class _Large(_Small):
    times: int = 2

    def __post_init__(self):
        object.__setattr__(self, "size", float(self.size))


def test_a_dataclass_is_checked_when_it_is_made():
    assert _Large(3).size == 3.0 and set(declared(_Large)) == {"size", "times"}
    with pytest.raises(AuditError, match="_Small has size=0, which is not a number above 0"):
        _Small(0)
    with pytest.raises(AuditError, match="_Large has size=-1, which"):
        _Large(-1)
    with pytest.raises(AuditError, match=r"_Large has times=0, which[\s\S]*the default is 2"):
        _Large(times=0)


BAD = [
    pytest.param(
        kind, name, value, id=f"{kind.__name__}-{name}-{type(value).__name__ if type(value) is object else value!r}"
    )
    for kind in ta.methods.ALL
    for name, constraint in declared(kind).items()
    for value in constraint.nonsense()
]


@pytest.fixture(scope="module")
def problem():
    schema = ta.Schema((ta.Number("income", 0, 9),))
    model = ta.models.wrap(lambda table: (table["income"] / 9).to_numpy(), schema)
    people = pd.DataFrame({"income": [1.0, 2.0, 8.0]})
    return ta.Problem(schema, model, background=people)


@pytest.mark.parametrize("kind", ta.methods.ALL)
def test_every_method_declares_every_parameter(kind):
    assert set(declared(kind)) == set(parameters_of(kind))
    for method in (kind(), kind.small()):
        for name, constraint in declared(kind).items():
            assert constraint.allows(getattr(method, name)), name


@pytest.mark.parametrize(("kind", "name", "value"), BAD)
def test_a_method_refuses_nonsense(problem, kind, name, value):
    with pytest.raises(MethodError, match=f"{kind.__name__} has {name}="):
        kind(**{name: value}).fit(problem)


def test_parameters_of_a_method_can_be_set():
    method = ta.methods.Wachter(lam=0.1)
    assert method.set_params(lam=0.2, steps=7) is method
    assert method.get_params()["lam"] == 0.2 and repr(method) == "Wachter(lam=0.2, steps=7)"
    with pytest.raises(MethodError, match=r"Wachter has no parameter 'mu'[\s\S]*it has lam, kappa") as error:
        method.set_params(lam=0.3, mu=1)
    assert isinstance(error.value, KeyError) and method.lam == 0.2
    with pytest.raises(MethodError, match="OneStep has no parameter 'mu'"):
        ta.methods.OneStep().set_params(mu=1)


@pytest.mark.parametrize("second", [KeyError, TypeError])
def test_an_error_may_be_two(second):
    error = also(SchemaError, second)("there is no column 'typo'.", hint="use one of ['age'].")
    assert isinstance(error, SchemaError) and isinstance(error, second) and isinstance(error, TurnaboutError)
    assert str(error) == "there is no column 'typo'.\n\nHint: use one of ['age']."
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and type(error).__name__ == "SchemaError"
    assert also(TrainingError, second) is also(TrainingError, second)


def test_unknown_names_are_key_errors_and_wrong_kinds_type_errors(problem):
    people = pd.DataFrame({"income": [1.0, 8.0]})
    answer = ta.methods.LocalSearch().fit(problem).find(people)
    for name, call in (("typo", lambda: problem.schema["typo"]), ("nobody", lambda: answer.of("nobody"))):
        with pytest.raises(KeyError, match=name) as error:
            call()
        assert isinstance(error.value, TurnaboutError) and "Hint:" in str(error.value)
    with pytest.raises(KeyError, match="no plan as option 0"):
        answer.steps_of(0)
    for call in (
        lambda: ta.methods.LocalSearch().fit("problem"),
        lambda: ta.Problem(problem.schema, "model"),
        lambda: ta.Problem("schema", problem.model),
        lambda: ta.Problem(problem.schema, problem.model, rules=["at most 3"]),
        lambda: ta.methods.LocalSearch().fit(problem).find(people, options="many"),
        lambda: ta.metrics.measure(problem, answer),
    ):
        with pytest.raises(TypeError, match="Hint:") as error:
            call()
        assert isinstance(error.value, TurnaboutError)
