"""The command line: data on stdout, talk on stderr, exit 0 / 1 / 2 for done / failed / misused."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import turnabout as ta
from command_line import turnabout

ACTIONS = """
time_unit: months
actions:
  - name: Earn
    label: earn {kEUR} more
    effect: [{shift: income, by: kEUR}]
    cost: "|income| / 10"
    precondition: [new income > old income, old income < 95]
    duration: new income - old income
  - name: Repay
    effect: [{shift: debt}]
    cost: "|debt| / 10 + 1"
    precondition: [new debt < old debt]
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files as a user would have them: training rows, people, a saved pipeline, a schema."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    train = pd.DataFrame(
        {"income": rng.integers(0, 100, 300), "debt": rng.random(300).round(3) * 50, "age": rng.integers(18, 80, 300)}
    )
    train["good"] = (train.income - train.debt + rng.normal(0, 10, 300) > 20).astype(int)
    features = ["income", "debt", "age"]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[features], train.good)
    people = train[features][model.predict(train[features]) == 0].head(12)
    people.insert(0, "name", [f"person {i}" for i in range(12)])
    joblib.dump(model, folder / "model.joblib")
    train.to_csv(folder / "train.csv", index=False)
    people.to_csv(folder / "people.csv", index=False)
    ta.Schema.infer(train[features], immutable=["age"], free=["income", "debt"]).plain().save(folder / "schema.yaml")
    (folder / "actions.yaml").write_text(ACTIONS)
    (folder / "torn.yaml").write_text("actions: [name: {")
    (folder / "aging.yaml").write_text(ACTIONS.replace("debt", "age"))
    (folder / "never.yaml").write_text(ACTIONS.replace("old income < 95", "old income > 900"))
    (folder / "nobody.yaml").write_text(ACTIONS.replace("old income < 95", "old age > 78"))
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(train[features], train.good)
    joblib.dump(tree, folder / "tree.joblib")
    return folder


def test_find_writes_json_on_stdout(desk):
    done = turnabout(
        "find", desk / "people.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml",
        "--background", desk / "train.csv", "--labels", "good", "--id", "name", "--options", 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    assert answer.counts()["FOUND"] == 12 and "person 3" in answer.status.index
    model = joblib.load(desk / "model.joblib")
    assert (model.predict(answer.options[["income", "debt", "age"]]) == 1).all()
    assert "12 FOUND" in done.stderr


class Metered:
    """A model nothing is known of, as a service would be: what was asked of it is not to be wondered about."""

    def __init__(self, model):
        self.model = model

    def __call__(self, table):
        return self.model.predict_proba(table)[:, 1]


def test_queries_run_out_in_the_open(desk, tmp_path):
    joblib.dump(Metered(joblib.load(desk / "model.joblib")), tmp_path / "metered.joblib")
    base = [desk / "people.csv", "--id", "name", "--schema", desk / "schema.yaml"]
    base += ["--model", tmp_path / "metered.joblib"]
    done = turnabout("find", *base, "--method", "growing-spheres", "--query-limit", 2)
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    assert answer.counts()["UNFINISHED"] + answer.counts()["FOUND"] == 12 and answer.counts()["UNFINISHED"] > 0
    assert turnabout("find", *base, "--query-limit", 0).returncode == 2


def test_find_reads_stdin_and_writes_csv_and_tables(desk):
    base = ["--model", desk / "model.joblib", "--schema", desk / "schema.yaml", "--id", "name"]
    done = turnabout("find", "-", *base, "--format", "csv", stdin=(desk / "people.csv").read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "person,option,feature,from,to"
    done = turnabout("find", desk / "people.csv", *base, "--format", "table", "--threshold", 0.999999999)
    assert done.returncode == 0 and "person 0" in done.stdout


def test_every_method_has_a_name_on_the_command_line(desk):
    listed = turnabout("methods")
    assert listed.returncode == 0
    for cls in ta.methods.ALL:
        assert cls.__name__.lower() in listed.stdout.replace("-", "")
    done = turnabout(
        "find",
        desk / "people.csv",
        "--model",
        desk / "model.joblib",
        "--schema",
        desk / "schema.yaml",
        "--method",
        "wachter",
    )
    assert done.returncode == 0 and json.loads(done.stdout)["made_by"] == "Wachter()"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["find", "absent.csv", "--model", "{desk}/model.joblib"], 2, "there is no file"),
        (["find", "{desk}/people.csv", "--model", "absent.joblib"], 2, "there is no file"),
        (["find", "{desk}/people.csv", "--model", "{desk}/train.csv"], 2, "cannot be loaded as a model"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--method", "magic"], 2, "no method 'magic'"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--id", "nobody"], 2, "no column 'nobody'"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--target", "7"], 2, "no class '7'"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--schema", "no.yaml"], 1, "no schema file"),
        (["find", "{desk}/people.csv"], 2, "--model"),
        (["schema", "infer", "{desk}/people.csv", "--immutable", "wealth"], 1, "no column 'wealth'"),
        (["dance"], 2, "dance"),
    ],
)
def test_misuse_is_told(desk, arguments, code, text):
    done = turnabout(*(a.format(desk=desk) for a in arguments))
    assert done.returncode == code, done.stderr
    assert text in " ".join(done.stderr.replace("│", " ").split()) and not done.stdout
    assert "Traceback" not in done.stderr


def test_schema_infer_drafts_yaml(desk):
    done = turnabout("schema", "infer", desk / "train.csv", "--immutable", "age", "--ignore", "good")
    assert done.returncode == 0
    schema = ta.Schema.from_yaml(done.stdout)
    assert schema["age"].moves == "fixed" and "good" not in schema.names
    assert "guessed" in done.stderr
    assert ta.Schema.from_json(turnabout("schema", "infer", desk / "train.csv", "--json").stdout)


def test_datasets_and_version():
    done = turnabout("datasets")
    assert done.returncode == 0 and "german" in done.stdout
    assert turnabout("--version").stdout.strip() == ta.__version__


def test_demo_runs_and_shows_a_plan():
    command = [sys.executable, "-m", "turnabout.cli", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Test people" in done.stdout and "FOUND" in done.stdout and "can do" in done.stdout
    assert "A careful reader would question" in done.stdout


def test_limits_of_single_people_from_a_file(desk, tmp_path):
    asked = ["find", desk / "people.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml"]
    free = ta.Recourse.from_json(turnabout(*asked, "--id", "name").stdout)
    person = free.changes().query("feature == 'income'").person.iloc[0]
    (tmp_path / "limits.csv").write_text(f"person,feature,fixed\n{person},income,true\n")
    (tmp_path / "limits.json").write_text(json.dumps({person: {"income": "fixed"}}))
    for name in ("limits.csv", "limits.json"):
        done = turnabout(*asked, "--id", "name", "--limits", tmp_path / name)
        assert done.returncode == 0, done.stderr
        changes = ta.Recourse.from_json(done.stdout).changes()
        assert not ((changes.person == person) & (changes.feature == "income")).any()
        assert (changes.feature == "income").any()
    (tmp_path / "rows.yaml").write_text("0: {income: fixed, debt: [null, 10]}\n")
    assert turnabout(*asked, "--limits", tmp_path / "rows.yaml").returncode == 0
    for text, said in (("Bob: {income: fixed}", "'Bob', who is not among"), ("0: {boat: fixed}", "name 'boat'")):
        (tmp_path / "wrong.yaml").write_text(text)
        done = turnabout(*asked, "--limits", tmp_path / "wrong.yaml")
        assert done.returncode == 1 and said in done.told and not done.stdout


def test_a_cell_to_provide_is_printed_as_a_range(tmp_path):
    from sklearn.impute import SimpleImputer

    rng = np.random.default_rng(0)
    train = pd.DataFrame({"income": rng.integers(1000, 9000, 300) * 1.0, "hours": rng.integers(5, 60, 300)})
    good = train.income + 50 * train.hours > 6000
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=0), LogisticRegression(max_iter=5000))
    joblib.dump(model.fit(train, good), tmp_path / "model.joblib")
    number = ta.Number("income", high=9000, useful_step=10, missing=True, provide=True, moves="up")
    ta.Schema((number, ta.Number("hours", high=60, step=1, moves="fixed"))).save(tmp_path / "schema.yaml")
    (tmp_path / "people.csv").write_text("income,hours\n,30\n")
    asked = [
        "find",
        tmp_path / "people.csv",
        "--model",
        tmp_path / "model.joblib",
        "--schema",
        tmp_path / "schema.yaml",
    ]
    answer = ta.Recourse.from_json(turnabout(*asked).stdout)
    range_ = answer.changes_in_words().to.iloc[0]
    assert range_.startswith("at least ") and "(up to 9,000)" in range_
    assert f'0,0,income,,"{range_}"' in turnabout(*asked, "--format", "csv").stdout
    table = turnabout(*asked, "--format", "table").stdout.replace("│", " ")
    assert range_ in " ".join(table.split())


def test_tables_show_what_was_verified(tmp_path):
    from rich.console import Console

    from turnabout.cli import frame_table

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(frame_table(pd.DataFrame({"a [b]": [25254.34], "home": ["own [paid]"]}), "[t]"))
    text = console.export_text()
    assert "25254.34" in text and "own [paid]" in text and "a [b]" in text


def test_words_that_look_missing_are_levels_if_the_schema_says_so(desk, tmp_path):
    from turnabout.cli import read_table

    (tmp_path / "t.csv").write_text("k,n\nNone,1\nNA,\n")
    schema = ta.Schema((ta.Category("k", levels=("None", "b"), missing=True), ta.Number("n", low=0, high=2)))
    table = read_table(str(tmp_path / "t.csv"), schema)
    assert table.k[0] == "None" and pd.isna(table.k[1]) and pd.isna(table.n[1])


def test_the_id_may_stand_in_the_background_too(desk, tmp_path):
    background = pd.read_csv(desk / "train.csv").assign(name="b")
    background.to_csv(tmp_path / "train.csv", index=False)
    done = turnabout(
        "find", desk / "people.csv", "--model", desk / "model.joblib", "--background", tmp_path / "train.csv",
        "--labels", "good", "--id", "name",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for arguments in (["find", "-"], ["find", str(tmp_path)]):
        done = turnabout(*arguments, "--model", desk / "model.joblib")
        assert done.returncode == 2 and "Traceback" not in done.stderr


# -- plans ------------------------------------------------------------------------------------------------------


def posed(desk, people="people.csv", model="model.joblib", actions="actions.yaml", id_column="name"):
    """The arguments that pose a question of plans from files."""
    files = ["--model", desk / model, "--schema", desk / "schema.yaml", "--actions", desk / actions]
    return ["plan", desk / people, *files, "--id", id_column]


def test_plan_writes_steps_in_words(desk):
    done = turnabout(*posed(desk), "--person", "person 3", "--person", "person 1", "--max-steps", 2)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("\n\n")
    assert first.startswith("person 3 is accepted after") and second.startswith("person 1 is accepted after")
    assert "now: refused, margin -" in first and "In all: cost" in first and "then accepted, margin +" in first
    assert "2 FOUND" in done.stderr


def test_plan_writes_json_csv_and_tables(desk):
    arguments = [*posed(desk), "--options", 2, "--max-steps", 2, "--score", "gradient"]
    done = turnabout(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    assert answer.counts()["FOUND"] == 12 and len(answer.plans) == len(answer.options) > 12
    model = joblib.load(desk / "model.joblib")
    assert (model.predict(answer.options[["income", "debt", "age"]]) == 1).all()
    for person, option in answer.plans.index:
        last = answer.states_of(person, option).iloc[-1]
        assert (last[answer.features] == answer.options.loc[(person, option), answer.features]).all()
    alone = [*arguments, "--person", "person 0"]
    steps = pd.read_csv(io.StringIO(turnabout(*alone, "--format", "csv").stdout))
    assert list(steps.columns[:4]) == ["person", "option", "step", "action"]
    assert steps.change.tolist() == [change for key, change in answer.steps.change.items() if key[0] == "person 0"]
    done = turnabout(*alone, "--format", "table")
    assert done.returncode == 0 and "what to do, in order" in done.stdout and "Plans in all" in done.stdout


def test_plan_says_why_there_is_none(desk):
    done = turnabout(*posed(desk), "--threshold", 0.9999999, "--max-steps", 1, "--person", "person 0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No plan was found for person 0: ")
    done = turnabout(*posed(desk), "--threshold", 0.9999999, "--max-steps", 1, "--format", "table")
    assert "No plan, and why" in done.stdout


def test_plan_takes_a_tree_and_the_rest_of_the_options(desk):
    done = turnabout(
        *posed(desk, model="tree.joblib"), "--background", desk / "train.csv", "--target", 1, "--seed", 3,
        "--time-limit", 60, "--max-steps", 1, "--score", "objective", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "score='objective'" in json.loads(done.stdout)["made_by"]


def test_plan_draws_pictures_under_harmless_names(desk, tmp_path):
    pytest.importorskip("matplotlib")
    people = pd.read_csv(desk / "people.csv").head(2).assign(name=["../a b", "..//a?b"])
    people.to_csv(tmp_path / "people.csv", index=False)
    arguments = posed(desk, tmp_path / "people.csv")
    done = turnabout(*arguments, "--max-steps", 1, "--picture", tmp_path / "new" / "pictures")
    assert done.returncode == 0, done.stderr
    drawn = sorted(path.name for path in (tmp_path / "new" / "pictures").iterdir())
    assert drawn == ["plan-.._a_b-0-1.png", "plan-.._a_b-0.png"] and "2 pictures" in done.stderr


def test_plan_of_a_domain_needs_no_files(data_home):
    done = turnabout("plan", "--domain", "german", "--whole", "--person", 9, "--max-steps", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Person 9 is accepted after 1 step costing 0.25.\n")
    assert "1. ask for another duration (Duration of the loan 12 -> 6)" in done.stdout


def test_plan_of_a_domain_takes_other_people(data_home, tmp_path):
    ta.studies.domains.load("german").people.iloc[[9]].assign(who="Ada").to_csv(tmp_path / "people.csv", index=False)
    arguments = ["plan", tmp_path / "people.csv", "--id", "who", "--domain", "german", "--whole", "--max-steps", 1]
    done = turnabout(*arguments)
    assert done.returncode == 0 and done.stdout.startswith("Ada is accepted after 1 step"), done.stderr


@pytest.mark.parametrize(
    ("changed", "code", "text"),
    [
        ({"actions": "absent.yaml"}, 1, "absent.yaml' cannot be read"),
        ({"actions": "torn.yaml"}, 1, "not valid YAML"),
        ({"actions": "schema.yaml"}, 1, "it has no list 'actions'"),
        ({"actions": "aging.yaml"}, 1, "'age', which the schema holds fixed"),
        ({"actions": "never.yaml"}, 1, "never holds"),
        ({"people": "absent.csv"}, 2, "there is no file"),
        ({"model": "absent.joblib"}, 2, "there is no file"),
        ({"id_column": "nobody"}, 2, "no column 'nobody'"),
        ({"model": "tree.joblib", "more": ["--score", "gradient"]}, 1, "gradient score needs a model"),
        ({"more": ["--max-steps", "0"]}, 2, "--max-steps"),
        ({"more": ["--score", "magic"]}, 2, "--score"),
        ({"more": ["--robust", "7"]}, 1, "robust=7.0, which is not a number strictly between 0 and 1"),
        ({"more": ["--person", "person 77"]}, 2, "nobody labelled 'person 77'"),
        ({"more": ["--whole"]}, 2, "only a --domain"),
        ({"more": ["--domain", "german"]}, 2, "the domain brings its own"),
        ({"more": ["--picture", "{desk}/people.csv"]}, 2, "is not a folder"),
    ],
)
def test_misuse_of_plan_is_told(desk, changed, code, text):
    files = {name: value for name, value in changed.items() if name != "more"}
    more = [argument.format(desk=desk) for argument in changed.get("more", [])]
    told(turnabout(*posed(desk, **files), *more), code, text)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["plan"], 2, "give PEOPLE, --model, --schema and --actions; or --domain"),
        (["plan", "people.csv", "--model", "m.joblib"], 2, "--schema"),
        (["plan", "--domain", "germany"], 1, "did you mean 'german'?"),
        (["plan", "--domain", "german", "--id", "name"], 2, "named by their row"),
        (["find", "{desk}/people.csv", "--model", "m", "--method", "action-sequences"], 2, "use `turnabout plan"),
        (["actions", "review", "{desk}/absent.yaml", "--schema", "{desk}/schema.yaml"], 1, "cannot be read"),
        (["actions", "draft", "--schema", "{desk}/absent.yaml"], 1, "no schema file"),
        (["actions", "draft"], 2, "--schema"),
    ],
)  # fmt: skip
def test_misuse_around_plans_is_told(desk, arguments, code, text):
    told(turnabout(*(argument.format(desk=desk) for argument in arguments)), code, text)


def told(done, code, text):
    assert done.returncode == code, done.stderr
    assert text in " ".join(done.stderr.replace("│", " ").split()) and not done.stdout
    assert "Traceback" not in done.stderr


def test_drafted_actions_pass_their_review(desk, tmp_path):
    done = turnabout("actions", "draft", "--schema", desk / "schema.yaml")
    assert done.returncode == 0 and "2 actions drafted" in done.stderr
    drafted = ta.ActionSet.from_yaml(done.stdout)
    assert drafted.names == ("Change income", "Change debt")  # age is fixed
    (tmp_path / "draft.yaml").write_text(done.stdout)
    done = turnabout("actions", "review", tmp_path / "draft.yaml", "--schema", desk / "schema.yaml")
    assert done.returncode == 0 and "Change income" in done.stdout and "Nothing looks wrong" in done.stderr
    assert ta.ActionSet.from_json(turnabout("actions", "draft", "--schema", desk / "schema.yaml", "--json").stdout)


def test_review_lists_what_is_wrong(desk):
    base = ["--schema", desk / "schema.yaml", "--people", desk / "people.csv"]
    done = turnabout("actions", "review", desk / "never.yaml", *base)
    assert done.returncode == 1 and "Repay" in done.stdout and "'old income > 900' never holds" in done.stdout
    assert "never holds" in done.stderr
    done = turnabout("actions", "review", desk / "nobody.yaml", *base)
    assert done.returncode == 0 and "none of these people can ever take the action 'Earn'" in done.stdout
    done = turnabout("actions", "review", desk / "aging.yaml", *base)
    assert (
        done.returncode == 1
        and "'age', which the schema holds fixed" in " ".join(done.stderr.split())
        and "Repay" in done.stdout
    )


def test_domains_are_listed():
    done = turnabout("domains")
    assert done.returncode == 0 and "german" in done.stdout and "fanniemae" in done.stdout


def test_consent_to_unseen_levels(tmp_path):
    schema = ta.Schema((ta.Category("job", ("none", "full", "own")), ta.Number("income", low=0, high=100, step=1)))
    table = pd.DataFrame({"job": ["none", "full"] * 20, "income": np.arange(40)})
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["job"]), remainder="passthrough")
    fitted = make_pipeline(columns, LogisticRegression()).fit(table, np.where(table["income"] > 20, "grant", "deny"))
    fitted[-1].coef_, fitted[-1].intercept_ = np.array([[-3.0, -3.0, 0.01]]), np.array([1.0])
    joblib.dump(fitted, tmp_path / "model.joblib")
    schema.save(tmp_path / "schema.yaml")
    table.to_csv(tmp_path / "people.csv", index=False)
    given = (
        "find",
        tmp_path / "people.csv",
        "--model",
        tmp_path / "model.joblib",
        "--schema",
        tmp_path / "schema.yaml",
    )
    for more, status in (((), "IMPOSSIBLE"), (("--unseen-levels", "allow"), "FOUND")):
        done = turnabout(*given, "--target", "grant", *more)
        assert done.returncode == 0, done.stderr
        assert set(ta.Recourse.from_json(done.stdout).status) == {ta.Status(status)}
