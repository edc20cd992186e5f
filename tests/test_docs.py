"""Pages of docs/ say only what runs: their code, what it prints, their files and their commands."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path
from unittest import mock

import pytest

import turnabout as ta
from turnabout.core import editor_schema

PAGE = Path(__file__).parent.parent / "docs" / "plans.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text(encoding="utf-8") if PAGE.exists() else "", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?(?![\w])")

pytestmark = pytest.mark.skipif(not BLOCKS, reason="the pages of docs/ do not travel with the source distribution")


def said(text: str) -> tuple[list[str], list[float]]:
    """Words and numbers of a text; spaces and lines apart."""
    return NUMBER.sub("#", text).split(), [float(number) for number in NUMBER.findall(text)]


def test_plans_page_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    heard = ""
    for language, block in BLOCKS:
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(block, scope)
            heard = out.getvalue()
        elif language == "yaml":
            assert ta.ActionSet.from_yaml(block).to_dict() == scope["actions"].to_dict()
        elif language == "sh":
            for line in block.splitlines():
                run(line)
        else:
            (words, numbers), (shown, digits) = said(heard), said(block)
            assert words == shown
            assert digits == pytest.approx(numbers, rel=0.01, abs=0.002)
    assert (tmp_path / "ada.png").is_file() and (tmp_path / "pictures" / "plan-Ada-0.png").is_file()


@pytest.mark.parametrize(
    "page",
    [
        "rules",
        "training",
        "risk",
        "explaining",
        "files",
        "favourable",
        "models",
        "plausibility",
        "bench",
        "robust",
        "face",
        "latent",
    ],
)
def test_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    heard = ""
    text = (PAGE.parent / f"{page}.md").read_text(encoding="utf-8")
    for language, block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(block, scope)
            heard = out.getvalue()
        elif language == "text":
            (words, numbers), (shown, digits) = said(heard), said(block)
            assert words == shown
            assert digits == pytest.approx(numbers, rel=0.02, abs=0.02)


def test_the_readme_quotes_the_certificate_of_the_training_page():
    readme = (PAGE.parent.parent / "README.md").read_text(encoding="utf-8")
    quoted = " ".join(line.removeprefix(">").strip() for line in readme.splitlines() if line.startswith("> "))
    page = (PAGE.parent / "training.md").read_text(encoding="utf-8")
    sentence = next(line for line in page.splitlines() if line.startswith("With 95 % confidence"))
    assert sentence in quoted


def test_the_readme_shows_a_plan_of_this_page():
    readme = (PAGE.parent.parent / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    assert ("", shown) in BLOCKS


def run(line: str) -> None:
    """One command of the page; what follows `>` is a file."""
    from turnabout.cli import main

    command, _, file = line.partition(" > ")
    out = io.StringIO()
    with (
        mock.patch.object(sys, "argv", shlex.split(command)),
        contextlib.redirect_stdout(out),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert not stop.value.code and out.getvalue(), line
    if file:
        Path(file).write_text(out.getvalue())


def test_every_page_links_the_glossary():
    pages = [path for path in PAGE.parent.rglob("*.md") if path.name != "glossary.md"]
    assert len(pages) > 10
    for page in pages:
        links = re.findall(r"\]\(([^)#]*glossary\.md)\)", page.read_text(encoding="utf-8"))
        assert any((page.parent / link).resolve() == (PAGE.parent / "glossary.md").resolve() for link in links), page


def fields_and_kinds():
    """Every field that a file of a schema may have, with the kinds of feature that have it; and those of a reach."""
    document = editor_schema()
    kinds: dict[str, set[str]] = {}
    for entry in document["$defs"]["feature"]["oneOf"]:
        for field in entry["properties"]:
            kinds.setdefault(field, set()).add(entry["properties"]["kind"]["const"])
    return kinds, set(document["$defs"]["reach"]["properties"]), set(document["properties"])


def test_the_page_on_files_tells_every_field_of_a_schema():
    text = (PAGE.parent / "files.md").read_text(encoding="utf-8")
    section = text.split("## What a line of a schema file may say", 1)[1].split("## Limits of single people", 1)[0]
    features, reach = section.split("| field of `reach` |")
    kinds, distances, entries = fields_and_kinds()

    def rows(table):
        cells = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
        return [(field, other) for fields, other in cells for field in re.findall(r"`(\w+)`", fields)]

    every = set().union(*kinds.values())
    told = {
        field: every - set(re.findall(r"`(\w+)`", of))
        if of.strip().startswith("all")
        else set(re.findall(r"`(\w+)`", of))
        for field, of in rows(features)
    }
    assert told == kinds
    assert {field for field, _ in rows(reach)} == distances
    assert all(f"`{name}`" in section for name in entries)


def test_the_schema_of_the_page_on_advice_is_one():
    text = (PAGE.parent / "advice.md").read_text(encoding="utf-8")
    (document,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    schema = ta.Schema.from_yaml(document)
    assert schema["ltv"].kind == "derived" and schema["income"].provide
    assert ta.Schema.from_yaml(schema.to_yaml()) == schema
