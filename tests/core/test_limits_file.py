"""Limits of single people in files: what is read, and what a damaged file is told."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from turnabout.core import limits_file
from turnabout.errors import TurnaboutError
from turnabout.schema import spreadsheet_csv

PEOPLE = pd.Index(["Ada", "017", 5, pd.Timestamp("2026-01-02")], dtype=object)


def read(folder, name, text, people=PEOPLE):
    (folder / name).write_text(text, encoding="utf-8")
    return limits_file.load(folder / name, people)


def test_a_table_is_read_by_the_texts_of_labels(tmp_path):
    text = (
        "person,feature,low,high,fixed,difficulty\nAda,job,,,true,\nAda,income,,60000,,\n017,debt,1.5,20,no,2\n"
        "5,job,,,Yes,\n"
    )
    wanted = {
        "Ada": {"job": {"fixed": True}, "income": {"high": 60000.0}},
        "017": {"debt": {"low": 1.5, "high": 20.0, "fixed": False, "difficulty": 2.0}},
        5: {"job": {"fixed": True}},
    }
    assert read(tmp_path, "limits.csv", text) == wanted
    assert read(tmp_path, "limits.tsv", text.replace(",", "\t")) == wanted


def test_labels_that_a_spreadsheet_would_run_are_found_as_they_are_written(tmp_path):
    people = pd.Index(["=1+1", "Bo"])
    text = spreadsheet_csv(pd.DataFrame({"person": people[:1], "feature": ["job"], "fixed": [True]}))
    assert read(tmp_path, "limits.csv", text, people) == {"=1+1": {"job": {"fixed": True}}}


def test_a_mapping_is_read_by_the_texts_of_labels(tmp_path):
    text = '{Ada: {job: fixed, income: [null, 60000]}, "017": {home: [own, rent]}, 5: {debt: {low: 1}}}'
    wanted = {
        "Ada": {"job": "fixed", "income": [None, 60000]},
        "017": {"home": ["own", "rent"]},
        5: {"debt": {"low": 1}},
    }
    assert read(tmp_path, "limits.yaml", text) == wanted
    named = {str(person): entries for person, entries in wanted.items()}
    assert read(tmp_path, "limits.json", json.dumps(named)) == wanted
    assert read(tmp_path, "limits.yml", "2026-01-02 00:00:00: {job: fixed}") == {PEOPLE[3]: {"job": "fixed"}}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "person,feature,fixed\nBob,job,1\n", "names the person 'Bob', who is not among"),
        ("a.csv", "person,feature,least\nAda,job,1\n", "has the column 'least'"),
        ("a.csv", "person,fixed\nAda,1\n", "has no column 'feature'"),
        ("a.csv", "feature,fixed\njob,1\n", "has no column 'person'"),
        ("a.csv", "person,feature,low\nAda,income,much\n", "line 2 of the file of limits .*has 'much' as low"),
        ("a.csv", "person,feature,high\nAda,income,inf\n", "has 'inf' as high"),
        ("a.csv", "person,feature,fixed\nAda,income,maybe\n", "has 'maybe' as fixed"),
        ("a.csv", "person,feature,fixed\nAda,income,\n", "says nothing of 'income'"),
        ("a.csv", "person,feature,fixed\nAda,,1\n", "names no feature"),
        ("a.csv", "person,feature,fixed\nAda,job,1\nAda,job,0\n", "line 3 .*names 'job' of person 'Ada' again"),
        ("a.csv", "person,feature,fixed\nAda,job\n", "has 2 cells"),
        ("a.csv", "", "is empty"),
        ("a.yaml", "- Ada", "does not map people"),
        ("a.yaml", "Ada: 3", "3 as the limits of person 'Ada'"),
        ("a.yaml", "Ada: {job: [", "is not valid YAML"),
        ("a.json", "{", "is not valid JSON"),
        ("a.json", '{"Bob": {"job": "fixed"}}', "names the person 'Bob'"),
        ("a.yaml", '{5: {job: fixed}, "5": {job: fixed}}', "the person '5' twice"),
    ],
)
def test_a_damaged_file_is_told_where(tmp_path, name, text, said):
    with pytest.raises(TurnaboutError, match=said):
        read(tmp_path, name, text)


def test_people_who_read_alike_are_not_guessed_at(tmp_path):
    with pytest.raises(TurnaboutError, match="several people are called so"):
        read(tmp_path, "a.csv", "person,feature,fixed\n5,job,1\n", pd.Index([5, "5"], dtype=object))


def test_a_file_that_is_not_there(tmp_path):
    for name in ("absent.csv", "absent.yaml"):
        with pytest.raises(TurnaboutError, match="cannot be read"):
            limits_file.load(tmp_path / name, PEOPLE)
