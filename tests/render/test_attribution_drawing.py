"""Pictures and words of attributions: the data drawn, the sign told twice, nothing unescaped."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from turnabout.core import Attribution, ConceptSpans, Pixels
from turnabout.errors import TurnaboutError
from turnabout.render.attribution_drawing import draw_waterfall, write_attribution
from turnabout.render.highlight import write_highlight
from turnabout.render.overlay import draw_overlay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

NAMES = ["income", "debt $US", "age", "rent"]
VALUES = pd.DataFrame([[0.5, -1.0, 0.25, -0.05], [0.0, 0.0, 0.0, 0.0]], index=["Ada", 7], columns=NAMES)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def attribution(values: pd.DataFrame = VALUES, **rest: object) -> Attribution:
    fields = {
        "errors": None,
        "base": pd.Series(0.1, index=values.index),
        "output": 0.1 + values.sum(axis=1),
        "kind": "contribution",
        "space": "concept",
        "score": "margin (log-odds)",
        "made_by": "ExactShapley()",
        "exact": True,
        "asked": 0,
        "seed": None,
    }
    return Attribution(values=values, **(fields | rest))  # type: ignore[arg-type]


def bars_of(ax) -> np.ndarray:
    """(start, length) of the bars from the top, a row each."""
    patches = [p for p in ax.patches if isinstance(p, matplotlib.patches.Rectangle) and p.get_height() < 1]
    return np.array([(p.get_x(), p.get_width()) for p in sorted(patches, key=lambda p: p.get_y())])


def labels_of(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


# -- waterfall --------------------------------------------------------------------------------------------------------


def test_a_waterfall_goes_from_the_base_to_the_score():
    ax = draw_waterfall(attribution(), "Ada")
    assert labels_of(ax) == ["base", r"debt \$US", "income", "age", "rent", "this person"]
    assert bars_of(ax) == pytest.approx(np.array([(0.1, -1.0), (-0.9, 0.5), (-0.4, 0.25), (-0.15, -0.05)]))
    dots = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() in ("o", "D")]
    assert dots == [pytest.approx([0.1, 0]), pytest.approx([-0.2, 5])]
    assert ax.get_title(loc="left") == "Ada: debt \\$US lowers the margin (log-odds) most,\nby 1"
    assert "margin (log-odds) (0 and above is a yes)" in ax.get_xlabel()


def test_the_sign_is_told_by_hatching_and_by_number_too():
    ax = draw_waterfall(attribution(), "Ada")
    shown = [p for p in ax.patches if p.get_height() < 1]
    assert all(bool(p.get_hatch()) == (p.get_width() < 0) for p in shown)
    texts = [text.get_text() for text in ax.texts]
    assert {"−1", "+0.5", "+0.25", "−0.05", "+0.1", "−0.2"} <= set(texts)
    gray = [float(np.dot(p.get_facecolor()[:3], [0.299, 0.587, 0.114])) for p in shown]
    up, down = ([g for g, p in zip(gray, shown, strict=True) if (p.get_width() > 0) == way] for way in (True, False))
    assert min(down) - max(up) > 0.2


def test_small_values_are_added_up_and_nothing_is_lost():
    ax = draw_waterfall(attribution(), "Ada", most=2)
    assert labels_of(ax) == ["base", r"debt \$US", "income", "2 others together", "this person"]
    assert bars_of(ax)[-1] == pytest.approx((-0.4, 0.2))
    assert labels_of(draw_waterfall(attribution(), "Ada", most=3))[-2] == "rent"  # a lone other has its name


def test_what_the_values_leave_has_a_bar_of_its_own():
    given = attribution(output=VALUES.sum(axis=1) + 0.5)
    ax = draw_waterfall(given, "Ada")
    assert labels_of(ax)[-2] == "left over"
    assert bars_of(ax)[-1] == pytest.approx((-0.2, 0.4))
    assert "left over: +0.4" in write_attribution(given, "Ada")


def test_without_a_base_values_stand_side_by_side():
    given = attribution(
        base=None, kind="slope", space="input", errors=VALUES.abs() / 10, unit="per whole range of a feature"
    )
    ax = draw_waterfall(given, "Ada", most=2)
    assert bars_of(ax) == pytest.approx(np.array([(0.0, -1.0), (0.0, 0.5)]))
    assert "whiskers: one standard error" in ax.get_xlabel()
    assert ax.get_xlabel().startswith("slope of the margin (log-odds), per whole range of a feature")
    title = ax.get_title(loc="left").replace("\n", " ")
    assert title.endswith("reacts most strongly to debt \\$US, by -1 per whole range of a feature")
    assert len(ax.containers) >= 3  # two bars and their whiskers


def test_slopes_raise_and_lower_nothing():
    given = attribution(kind="slope", unit="per deviation of the background")  # of a concept space, with a base
    said = write_attribution(given, "Ada")
    assert "by -1 per deviation of the background." in said and "base" not in said
    assert "A slope says how the score reacts to a change" in said and "lowers" not in said
    assert "Person 7: every slope of the margin (log-odds) is 0." in write_attribution(given, 7)


def test_contributions_of_columns_raise_and_lower():
    given = attribution(space="input", made_by="IntegratedGradients()")
    said = write_attribution(given, "Ada")
    assert said.startswith("Ada: debt $US lowers the margin (log-odds) most, by 1.")
    assert "  base: +0.1, the margin (log-odds) at the baseline\n" in said
    bare = attribution(base=None, space="input")
    assert draw_waterfall(bare, "Ada").get_xlabel() == "contribution to the margin (log-odds)"


def test_a_direction_that_goes_nowhere():
    given = attribution(base=None, output=None, kind="direction", space="input", score="where to move")
    said = write_attribution(given, 7)
    assert said.startswith("Person 7: nothing is to move.") and "counts" not in said


def test_pictures_of_what_raises_and_lowers_take_contributions_only():
    image = attribution(PARTS, layout=Pixels(SEGMENTS), kind="slope")
    with pytest.raises(TurnaboutError, match="an overlay shows what raises and lowers a score, and a slope does"):
        draw_overlay(image, np.zeros((3, 3)))
    with pytest.raises(TurnaboutError, match="a highlight shows what raises and lowers a score, and a slope does"):
        write_highlight(attribution(WORDS, layout=ConceptSpans(TEXT, SPANS), kind="slope"))


def test_a_direction_is_not_called_a_contribution():
    given = attribution(base=None, output=None, kind="direction", space="input")
    ax = draw_waterfall(given, "Ada")
    assert "is to move most" in ax.get_title(loc="left")
    assert "share" in ax.get_xlabel()
    assert "A direction says where to move" in write_attribution(given, "Ada")


def test_a_person_for_whom_nothing_counts():
    ax = draw_waterfall(attribution(), 7)
    assert "Person 7: no feature counts" in ax.get_title(loc="left")


def test_it_draws_where_it_is_told():
    _, given = matplotlib.pyplot.subplots()
    assert draw_waterfall(attribution(), "Ada", given) is given
    image = attribution(pd.DataFrame([[1.0]]), layout=Pixels(np.zeros((2, 2), dtype=int)))
    assert draw_overlay(image, np.zeros((2, 2)), given) is given


def test_words():
    said = write_attribution(attribution(errors=VALUES.abs() / 10, notes=("mind the gap",)), "Ada", most=2)
    assert said.splitlines() == [
        "Ada: debt $US lowers the margin (log-odds) most, by 1.",
        "  base: +0.1, the margin (log-odds) with everything removed, or the intercept",
        "  debt $US: -1 (standard error 0.1)",
        "  income: +0.5 (standard error 0.05)",
        "  2 others together: +0.2",
        "  ends at -0.2, the margin (log-odds) of this person",
        "  Contributions are no distance to the boundary, and not what to do. Made by ExactShapley().",
        "  note: mind the gap",
    ]


# -- image ------------------------------------------------------------------------------------------------------------

SEGMENTS = np.array([[0, 0, 1], [2, 2, 1], [2, 2, 3]])
PARTS = pd.DataFrame([[0.4, -0.8, 0.0, 0.1]])


def test_an_overlay_shows_the_parts_that_count_most():
    given = attribution(PARTS, layout=Pixels(SEGMENTS), score="P(cat)")
    ax = draw_overlay(given, np.full((3, 3, 3), 128, dtype=np.uint8), most=2)
    tints = [np.asarray(image.get_array())[..., 3] > 0 for image in ax.images[1:]]
    assert np.array_equal(tints[0], SEGMENTS == 1)
    assert np.array_equal(tints[1], SEGMENTS == 0)
    assert [text.get_text() for text in ax.texts] == ["−0.8", "+0.4"]
    assert "Of the 2 parts that count most, 1 raise the" in ax.get_title(loc="left").replace("\n", " ")
    assert "P(cat)" in ax.get_xlabel()
    for text, part in zip(ax.texts, (1, 0), strict=True):  # the number stands on its own part
        x, y = text.get_position()
        assert SEGMENTS[int(y), int(x)] == part


def test_parts_of_no_value_are_not_shown():
    nothing = attribution(PARTS * 1e-15, layout=Pixels(SEGMENTS), score="P(cat)")
    ax = draw_overlay(nothing, np.zeros((3, 3)))
    assert len(ax.images) == 1
    assert "No part of the image counts" in ax.get_title(loc="left")


def test_images_that_do_not_fit_are_refused():
    given = attribution(PARTS, layout=Pixels(SEGMENTS))
    with pytest.raises(TurnaboutError, match="layout of pixels"):
        draw_overlay(attribution(), np.zeros((3, 3)))
    with pytest.raises(TurnaboutError, match="does not lie under segments"):
        draw_overlay(given, np.zeros((4, 3)))
    with pytest.raises(TurnaboutError, match="does not lie under segments"):
        draw_overlay(given, np.zeros((3, 3, 2)))
    for wrong in (np.full((3, 3), 2.0), np.full((3, 3), np.nan)):
        with pytest.raises(TurnaboutError, match="outside 0 to 1"):
            draw_overlay(given, wrong)
    with pytest.raises(TurnaboutError, match="do not name the 4 concepts"):
        draw_overlay(attribution(PARTS, layout=Pixels(SEGMENTS + 1)), np.zeros((3, 3)))


# -- text -------------------------------------------------------------------------------------------------------------


class Read(HTMLParser):
    """Collects marks, their titles and all text outside the caption."""

    def __init__(self, text: str):
        super().__init__()
        self.marks: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.text, self.quiet = "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.quiet = self.quiet or tag in ("sup", "figcaption")
        if tag == "mark":
            self.marks.append((dict(attrs)["title"], dict(attrs)["style"]))

    def handle_endtag(self, tag):
        self.quiet = self.quiet and tag not in ("sup", "figcaption")

    def handle_data(self, data):
        self.text += "" if self.quiet else data


TEXT = 'A <b>bad</b> "loan" & bad luck'
SPANS = ((5, 8, 0), (14, 18, 1), (22, 25, 0), (26, 30, 2))  # bad, loan, bad, luck
WORDS = pd.DataFrame([[-0.5, 0.25, 0.02]], columns=["bad", 'lo"an', "luck"])


def test_words_are_marked_wherever_they_stand_and_the_text_is_whole():
    assert [TEXT[a:b] for a, b, _ in SPANS] == ["bad", "loan", "bad", "luck"]
    read = Read(write_highlight(attribution(WORDS, layout=ConceptSpans(TEXT, SPANS))))
    assert read.text.strip() == TEXT
    assert "b" not in read.tags  # the text's own tags are escaped
    assert [title for title, _ in read.marks] == ["bad: -0.5", 'lo"an: +0.25', "bad: -0.5"]
    assert ["dashed" in style for _, style in read.marks] == [True, False, True]


def test_rounding_marks_no_word():
    assert Read(write_highlight(attribution(WORDS * 1e-14, layout=ConceptSpans(TEXT, SPANS)))).marks == []


def test_the_caption_tells_the_score():
    text = write_highlight(
        attribution(WORDS, layout=ConceptSpans(TEXT, SPANS), score="P(<yes>)", output=pd.Series([0.75]))
    )
    assert "P(&lt;yes&gt;) 0.75." in text
    assert "<sup>+</sup>" in text
    assert "P(yes). Solid" in write_highlight(
        attribution(WORDS, layout=ConceptSpans(TEXT, SPANS), score="P(yes)", output=None)
    )
    assert "&minus;" in text


def test_texts_that_do_not_fit_are_refused():
    with pytest.raises(TurnaboutError, match="layout of words"):
        write_highlight(attribution())
    for spans in (((5, 8, 9),), ((5, 80, 0),), ((5, 8, 0), (7, 9, 1))):
        with pytest.raises(TurnaboutError, match="does not lie in the text, or overlaps"):
            write_highlight(attribution(WORDS, layout=ConceptSpans(TEXT, spans)))
    with pytest.raises(TurnaboutError, match="not all numbers"):
        write_highlight(attribution(WORDS * np.nan, layout=ConceptSpans(TEXT, SPANS)))


def test_bad_input():
    with pytest.raises(TurnaboutError, match="not an Attribution"):
        draw_waterfall(VALUES, "Ada")  # type: ignore[arg-type]
    with pytest.raises(TurnaboutError, match="no person 'Bob'"):
        draw_waterfall(attribution(), "Bob")
    with pytest.raises(TurnaboutError, match="most=0"):
        write_attribution(attribution(), "Ada", most=0)
    with pytest.raises(TurnaboutError, match="not all numbers"):
        draw_waterfall(attribution(VALUES * np.nan), "Ada")
