"""Networks are trained once for a background, tell of their training, and travel as files."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import turnabout as ta
from earners import SCHEMA, decider, earners, question
from turnabout.errors import MethodError
from turnabout.methods import Cchvae, Cruds, Revise, TabsynQ, TabsynSvdd
from turnabout.methods.networks import digest, fingerprint, read_network

LATENT = (Revise, Cchvae, Cruds, TabsynQ, TabsynSvdd)
every = pytest.mark.parametrize("cls", LATENT, ids=lambda cls: cls.__name__)
PEOPLE = earners(12, seed=2, refused=True)


@pytest.fixture
def trainings(monkeypatch):
    """The classes that trained a network, one entry for each time."""
    seen = []
    for cls in LATENT:

        def train(self, network, problem, before=cls._train):
            seen.append(type(self))
            before(self, network, problem)

        train.__qualname__ = cls._train.__qualname__  # the shared ones stay shared
        monkeypatch.setattr(cls, "_train", train)
    return seen


@pytest.fixture(scope="module")
def shared():
    """A problem that several tests ask about: its networks are trained once."""
    return question(200)


# -- trained once ------------------------------------------------------------------------------------------------------


@every
def test_one_training_serves_every_question_about_the_same_people(cls, trainings):
    method = cls.small().fit(question(200))
    assert trainings == [cls]
    method.find(PEOPLE)
    method.find(PEOPLE, options=3)  # searches again without some features
    method.find(PEOPLE, limits={label: {"income": "fixed"} for label in PEOPLE.index[:4]})
    method.find(PEOPLE, landing=0.7)
    method.fit(method.problem_)
    cls.small().set_params(plausible=0.3).fit(method.problem_)
    method.clone().fit(method.problem_.without([2]))
    assert trainings == [cls]


def test_methods_of_one_network_share_it(trainings):
    problem = question(200)
    same = {"latent": 4, "hidden": (32,), "training_steps": 60}
    first, second = Revise(**same).fit(problem), Cchvae(**same).fit(problem)
    assert first.network_ is second.network_ and trainings == [Revise]
    assert Cruds(**same).fit(problem).network_ is not first.network_
    assert trainings == [Revise, Cruds]


@pytest.mark.parametrize("more", [{"latent": 3}, {"hidden": (16,)}, {"training_steps": 50}, {"seed": 1}], ids=str)
def test_other_parameters_of_the_network_are_another_training(more, trainings, shared):
    same = {"latent": 4, "hidden": (32,), "training_steps": 60}
    Revise(**same).fit(shared)
    before = len(trainings)
    Revise(**{**same, **more}).fit(shared)
    assert len(trainings) == before + 1


def test_other_people_are_another_training(trainings):
    Revise.small().fit(question(120))
    Revise.small().fit(question(120))  # equal rows, but another table
    assert trainings == [Revise, Revise]


def test_training_tells_how_far_it_is(capsys):
    told: list[tuple[int, int]] = []
    method = Revise.small().set_params(training_steps=60)
    method.fit(question(120), progress=lambda *step: told.append(step))
    assert told[-1] == (60, 60) and told == sorted(told) and len(told) > 5
    assert method._training is None
    Cruds.small().set_params(training_steps=60).fit(question(120), progress=True)
    heard = capsys.readouterr()
    assert heard.err and heard.out == ""  # a bar, taken away when all is done


def test_a_trained_method_is_pickled_with_its_network(shared, trainings):
    method = Cruds.small().fit(shared)
    again = pickle.loads(pickle.dumps(method))
    before = len(trainings)
    assert again.find(PEOPLE, options=2) == method.find(PEOPLE, options=2)
    assert len(trainings) == before


# -- files -------------------------------------------------------------------------------------------------------------


@every
def test_a_saved_network_answers_the_same_without_training(cls, tmp_path, trainings):
    method = cls.small().set_params(plausible=0.2).fit(question(200))
    method.save(tmp_path / "net.safetensors")
    trainings.clear()
    for loaded in (cls.load(tmp_path / "net.safetensors"), ta.methods.load(str(tmp_path / "net.safetensors"))):
        assert type(loaded) is cls and loaded.get_params() == method.get_params()
        loaded.fit(question(200))
        assert loaded.find(PEOPLE, options=2, landing=0.6) == method.find(PEOPLE, options=2, landing=0.6)
        assert loaded.clone().fit(loaded.problem_).network_ is loaded.network_
    assert trainings == []


def test_a_loaded_network_is_not_taken_for_a_trained_one(tmp_path, shared, trainings):
    Revise.small().fit(question(150, seed=8)).save(tmp_path / "other.safetensors")
    trainings.clear()
    loaded = Revise.load(tmp_path / "other.safetensors").fit(shared)
    trained = Revise.small().fit(shared)
    assert loaded.network_ is not trained.network_
    assert not torch.equal(loaded.network_.first.weight, trained.network_.first.weight)
    assert Revise.load(tmp_path / "other.safetensors").fit(shared).network_ is loaded.network_


@pytest.fixture(scope="module")
def file(tmp_path_factory, shared):
    path = tmp_path_factory.mktemp("nets") / "revise.safetensors"
    Revise.small().fit(shared).save(path)
    return path


def test_an_untrained_method_has_nothing_to_save(tmp_path):
    with pytest.raises(MethodError, match="Revise is not trained yet"):
        Revise.small().save(tmp_path / "net.safetensors")


def test_files_that_are_not_there_or_hold_something_else(tmp_path, file):
    with pytest.raises(MethodError, match=r"there is no file .*absent"):
        Revise.load(tmp_path / "absent.safetensors")
    with pytest.raises(MethodError, match="holds a Revise, not a Cchvae"):
        Cchvae.load(file)
    (tmp_path / "text").write_text("weights: none")
    with pytest.raises(MethodError, match="is no safetensors file"):
        ta.methods.load(tmp_path / "text")
    save_file({"a": torch.zeros(2)}, tmp_path / "alien")
    with pytest.raises(MethodError, match="holds tensors, but no network of a turnabout method"):
        ta.methods.load(tmp_path / "alien")


def test_damaged_files_are_refused(tmp_path, file):
    content = file.read_bytes()
    (tmp_path / "short").write_bytes(content[:-10])
    with pytest.raises(MethodError, match="is no safetensors file"):
        ta.methods.load(tmp_path / "short")
    (tmp_path / "flipped").write_bytes(content[:-10] + bytes([content[-10] ^ 64]) + content[-9:])
    with pytest.raises(MethodError, match="is damaged: its weights are not those that were saved"):
        ta.methods.load(tmp_path / "flipped")


def rewritten(file, path, weights=None, **told):
    """A copy of a file with other weights, or with something else told of itself."""
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        metadata = dict(opened.metadata())
    weights = load_file(file) if weights is None else weights
    save_file(weights, path, metadata={**metadata, "digest": digest(weights), **told})
    return path


def test_a_method_of_somebody_else_is_not_guessed(tmp_path, file):
    with pytest.raises(MethodError, match="holds a Foreign, which is none of turnabout's methods"):
        ta.methods.load(rewritten(file, tmp_path / "foreign", method="Foreign"))


def test_weights_that_do_not_fit_are_refused(tmp_path, file, shared):
    params = {**read_network(file).parameters, "latent": 9}
    wrong = Revise.load(rewritten(file, tmp_path / "wrong", parameters=json.dumps(params)))
    with pytest.raises(MethodError, match=r"the weights do not fit Revise\("):
        wrong.fit(shared)
    weights = load_file(file)
    del weights["first.weight"]
    with pytest.raises(MethodError, match="the weights do not fit"):
        Revise.load(rewritten(file, tmp_path / "less", weights)).fit(shared)


def test_a_network_of_another_schema_is_refused(file, shared):
    background = earners(100, 1)

    def fit(schema, model=None):
        model = model or ta.models.wrap(lambda table: np.full(len(table), 0.4), schema)
        loaded = Cchvae(**{"latent": 4, "hidden": (32,)})
        loaded._saved = read_network(file)
        return loaded.fit(ta.Problem(schema, model, background=background))

    fit(SCHEMA)
    more = SCHEMA.__class__(tuple(f for f in SCHEMA if f.name != "age"))
    with pytest.raises(MethodError, match="was trained on rows of another schema"):
        fit(more)
    loose = SCHEMA.__class__(tuple(dataclasses.replace(f, moves="free") if f.name == "sex" else f for f in SCHEMA))
    with pytest.raises(MethodError, match=r"another schema[\s\S]*the same features fixed"):
        fit(loose)
    # a limit of single people is no other schema
    assert fingerprint(shared.without([0, 1])) == fingerprint(shared)


def test_the_file_says_what_it_holds(file):
    saved = read_network(file)
    assert saved.method == "Revise" and saved.parameters["hidden"] == (32,)
    assert saved.weights["first.weight"].dtype == torch.float32
    assert saved.fingerprint == fingerprint(ta.Problem(SCHEMA, decider(), background=earners(5)))


def test_a_file_of_another_version_is_told(tmp_path):
    path = tmp_path / "cruds.safetensors"
    Cruds.small().set_params(training_steps=20).fit(question(80)).save(path)
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(path, framework="pt") as opened:
        told = dict(opened.metadata())
    told["parameters"] = told["parameters"].replace("confidence", "kappa")
    save_file(load_file(path), path, metadata=told)
    with pytest.raises(MethodError, match="holds a Cruds of another version"):
        ta.methods.load(path)
