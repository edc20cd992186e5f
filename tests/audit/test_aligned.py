"""Values, options and rows beside the people they belong to."""

import numpy as np
import pandas as pd
import pytest

from turnabout.audit.aligned import aligned, same_rows
from turnabout.errors import AuditError

INDEX = pd.Index(["ann", "bo", "cy"])


def test_a_series_goes_by_labels_and_others_by_order():
    assert aligned("labels", pd.Series([3, 1, 2], index=["cy", "ann", "bo"]), INDEX).tolist() == [1, 2, 3]
    for values in ([1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), iter([1, 2, 3]), pd.Categorical([1, 2, 3])):
        assert aligned("labels", values, INDEX).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, 2], "labels= has 2 values for 3 people"),
        (np.ones((3, 2)), "labels= has 6 values for 3 people"),
        (pd.Series([1, 2, 3]), "index is not that of the people"),
        (pd.Series([1] * 4, index=["ann", "bo", "cy", "cy"]), "index is not that of the people"),
        (pd.DataFrame({"a": [1, 2, 3]}), "labels= is a table"),
        ("abc", "labels= is 'abc'"),
        ({1, 2, 3}, "not one value per person"),  # in no order
        (7, "labels= is 7"),
    ],
)
def test_what_is_not_one_per_person_is_refused(values, text):
    with pytest.raises(AuditError, match=text):
        aligned("labels", values, INDEX)


def test_rows_are_compared_by_value():
    one = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, "z"]}, index=INDEX)
    assert same_rows(one, one.copy(), ["a", "b"])
    assert same_rows(one, one.astype({"a": "Float64", "b": "category"}), ["a", "b"])  # a gap equals a gap
    assert not same_rows(one, one.assign(a=[1.0, 2.0, 3.0]), ["a", "b"])
    assert same_rows(one, one.assign(a=[1.0, 2.0, 3.0]), ["b"])
    assert not same_rows(one, one.iloc[::-1], ["a"])
    assert not same_rows(one, one[["a"]], ["a", "b"])
