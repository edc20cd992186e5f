"""Pages need nothing but themselves, escape whatever they are given, and say numbers as they are."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from turnabout.errors import TurnaboutError
from turnabout.render.audit_page import audit_page, break_even_words, verdict_sentence
from turnabout.render.explain_page import explain_page
from turnabout.render.page import (
    HARD,
    Section,
    between,
    bullets,
    heading,
    literal,
    number,
    paragraph,
    percent,
    picture,
    rate,
    sentence,
    signed,
    table,
    write_page,
)

EVIL = "<script>alert(1)</script> & \"quotes\" 'too' -->"
VOID = {"meta", "path", "use", "rect", "br"}


class Reader(HTMLParser):
    """Reads a page; refuses tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.text += text


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture
def ax():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")

    def draw(label=EVIL):
        _, ax = plt.subplots(figsize=(3, 2))
        ax.plot([0, 1], [0, 1], label=label)
        ax.barh([0], [1], hatch="///")
        ax.set(title=label, xlabel=label)
        ax.legend()
        return ax

    return draw


def everything(ax):
    blocks = (
        heading(EVIL),
        paragraph(EVIL),
        bullets([EVIL]),
        literal(EVIL),
        table((EVIL, "b"), [(EVIL, EVIL)], EVIL),
        picture(ax(), EVIL, EVIL, "one"),
        picture(ax(), EVIL, EVIL, "two"),
    )
    return write_page(EVIL, [paragraph(EVIL, "lead")], [Section(EVIL, blocks), Section("empty", ())])


def test_a_page_escapes_whatever_it_is_given(ax):
    page = everything(ax)
    reader = read(page)
    assert "script" not in reader.tags
    assert reader.text.count(EVIL) == 15  # title, h1, lead, link, h2, h3, p, li, pre, 4 in the table, 2 below pictures
    assert "<script" not in page


def test_a_page_loads_nothing_and_names_nothing_twice(ax):
    page = everything(ax)
    reader = read(page)
    assert len(reader.ids) == len(set(reader.ids)) > 20
    assert not re.search(r"https?://(?!www\.w3\.org/)", page) and "<link" not in page and "src=" not in page
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page))
    assert used <= set(reader.ids)
    assert page.startswith("<!doctype html>") and '<html lang="en">' in page and 'name="viewport"' in page
    assert "prefers-color-scheme:dark" in page and "@media print" in page
    assert page.count('role="img" aria-label="&lt;script') == 2 and page.count("<figcaption>") == 2


def test_pages_are_the_same_twice_and_leave_no_figure_open(ax):
    import matplotlib.pyplot as plt

    assert everything(ax) == everything(ax)
    assert not plt.get_fignums()


def test_sections_without_blocks_are_left_out(ax):
    page = write_page("t", [], [Section("empty", ()), Section("full", (paragraph("x"),))])
    assert "empty" not in page and page.count("<h2") == 1 and 'href="#part-1"' in page


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (number(None), "unknown"),
        (number(1204), "1,204"),
        (number(-3.0), "−3"),
        (number(0.28349), "0.283"),
        (number(0.00001), "1.0e−05"),
        (number(12345.678), "12,346"),
        (percent(0.0), "0 %"),
        (percent(0.00001), "under 0.1 %"),
        (percent(0.99999), "over 99.9 %"),
        (percent(1.0), "100 %"),
        (percent(0.085), "8.5 %"),
        (percent(None), "unknown"),
        (signed(-0.0312), "−0.031"),
        (between({"value": 1.0, "low": 0.9, "high": 1.0}), "1.000 (0.900 to 1.000)"),
        (between({"value": 0.5, "low": None, "high": 2.0}, 2), "0.50 (unknown to 2.00)"),
        (between({"value": 0.5, "low": None, "high": None}), "0.500 (no interval)"),
        (between({"value": None, "low": 0.1, "high": 0.2}), "within 0.100 to 0.200"),
        (between({"value": None, "low": None, "high": 0.2}), "unknown"),
        (between(None), "not asked"),
        (rate({"value": 0.5, "low": 0.1, "high": 0.9, "n": 4}), "50 % (10 % to 90 %; n = 4)"),
        (rate({"value": None, "low": 0.0, "high": 1.0, "n": 0}), "unknown (nobody to count)"),
        (sentence("labels are known"), "Labels are known."),
        (sentence("Is it so?"), "Is it so?"),
    ],
)
def test_numbers_are_said_as_they_are(said, text):
    assert said.replace(HARD, " ") == text


def figure(value, low, high):
    return {"value": value, "low": low, "high": high, "n": 9}


def risk(verdict, excess, before=0.2, after=0.3, **more):
    out = {"verdict": verdict, "reason": "nobody moves.", "confidence": 0.95, "excess": {"given": excess}}
    out |= {"risk_before": figure(before, 0.1, 0.3), "risk_after": {"given": figure(after, 0.2, 0.4)}}
    return out | more


def test_the_verdict_is_one_sentence_with_its_interval():
    harm = verdict_sentence(risk("HARM", figure(0.1, 0.05, 0.15)))
    assert harm == (
        "Offering this recourse would raise the share of wrong decisions from 0.200 to 0.300, a change of +0.100 with "
        "a 95 % interval of +0.050 to +0.150."
    )
    assert "would lower" in verdict_sentence(risk("BENEFIT", figure(-0.1, -0.2, -0.05), 0.3, 0.2))
    assert "cannot be told" in verdict_sentence(risk("UNDETERMINED", figure(0.1, -0.1, 0.3)))
    assert "nobody moves" in verdict_sentence(risk("UNDETERMINED", figure(0.0, None, None)))
    bounds = verdict_sentence(risk("UNDETERMINED", figure(None, -0.3, 0.3)))
    assert "may raise or lower" in bounds and "within −0.300 to +0.300" in bounds


def test_bounds_tell_no_break_even():
    known = {"break_even": figure(1.5, 0.8, 2.1), "bounds": {}, "break_even_note": "above 1: no compliance suffices"}
    assert break_even_words(known).replace(HARD, " ") == "1.50 (0.80 to 2.10); above 1: no compliance suffices"
    unknown = {"break_even": figure(None, None, None), "bounds": {"excess": []}, "break_even_note": "does not help"}
    assert break_even_words(unknown) == "not known, as outcomes of the refused are not"


@pytest.mark.parametrize("draw", [audit_page, explain_page])
@pytest.mark.parametrize("document", [{}, [], {"turnabout_audit": 7}, {"turnabout_explain": 7}])
def test_other_documents_are_refused(draw, document):
    with pytest.raises(TurnaboutError, match=r"not an .* of turnabout, or one of another version"):
        draw(document)
