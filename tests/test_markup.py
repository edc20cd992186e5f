"""Notebooks show objects as small HTML in which every name and cell is escaped."""

import pandas as pd
import pytest

import turnabout as ta
from turnabout.markup import COLUMNS, ROWS, block, report_html

NASTY = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def answer():
    schema = ta.Schema((ta.Number("income", 0, 9, step=1), ta.Category(NASTY, ("<b>no</b>", "yes & no"))))
    model = ta.models.wrap(lambda table: ((table["income"] > 4) & (table[NASTY] == "yes & no")).astype(float), schema)
    people = pd.DataFrame(
        {"income": [1.0, 2.0, 8.0], NASTY: ["<b>no</b>", "yes & no", "yes & no"]}, index=["<i>", 1, 2]
    )
    return ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(people), schema


def shows(html, *pieces):
    assert "<script" not in html and "<b>no" not in html and "<i>" not in html
    return all(piece in html for piece in pieces)


def test_a_schema_shows_its_features(answer):
    assert shows(answer[1]._repr_html_(), "Schema of 2 features", "&lt;script&gt;", "&lt;b&gt;no&lt;/b&gt;", "income")


def test_an_answer_shows_its_counts_and_changes(answer):
    html = answer[0]._repr_html_()
    assert shows(html, "Recourse(3 people", "FOUND", "&lt;script&gt;", "yes &amp; no", "&lt;i&gt;")


def test_an_attribution_shows_its_values(answer):
    found = answer[0].to_directions(answer[1])
    assert shows(found._repr_html_(), "Attribution(", "&lt;script&gt;", "&lt;i&gt;")


def test_a_report_shows_what_it_prints(answer):
    rates = ta.audit.recourse_rates(answer[0], groups=["<b>no</b>", "<b>no</b>", "other"])
    html = rates._repr_html_()
    assert shows(html, "RecourseRates", "<pre") and html == report_html(rates)
    certificate = ta.train.pac_threshold([i / 200 for i in range(200)])
    assert "Certificate" in certificate._repr_html_()


def test_a_large_table_is_cut_and_says_so():
    html = block("large", pd.DataFrame([[0.5] * (COLUMNS + 3)] * (ROWS + 5)))
    assert f"The first part of {ROWS + 5} rows and {COLUMNS + 3} columns." in html and html.count("<tr") == ROWS + 1
    assert "first part" not in block("small", pd.DataFrame({"a": [1]}))
