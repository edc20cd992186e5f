"""The figures as tables of Markdown, beside the published ones and what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from genre_rivals.published import MEASURES, PAPER, TARGET

Figures = dict[str, dict[str, Any]]
TITLES = {"adult": "Adult", "compas": "COMPAS", "heloc": "HELOC", "german": "German credit"}
BOARD = {  # columns of the strict tables: head, measure, digits
    "rank": 1,
    "over_nothing": 2,
    "unseen_validity": 2,
    "plausible": 2,
    "found": 2,
    "cost": 2,
    "changes": 1,
    "retrained": 2,
    "diversity": 2,
}
WITH_INTERVAL = ("over_nothing",)


def texts(figures: Figures) -> Iterator[str]:
    """All tables for which there are figures."""
    for data, title in TITLES.items():
        if rows := list(_paper(figures, data)):
            people = figures[f"paper.{data}.nothing.score"]
            yield _table(
                f"{title}, GenRe's protocol: {_counted(people)}",
                ("method", "cost", "validity", "inliers", "score", "score, refined", "published", "asked for"),
                rows,
            )
    for data, title in TITLES.items():
        if rows := list(_strict(figures, data)):
            people = figures[f"{data}.nothing.score"]
            told = f"{title}, strict protocol: {_counted(people)}"
            if f"{data}.possible" in figures:
                told += f"; that {1 - figures[f'{data}.possible']['value']:.1%} can do nothing is proved"
            yield _table(told, ("method", "refined", *(name.replace("_", " ") for name in BOARD)), rows)
    if rows := list(_speed(figures)):
        heads = ("method", "fit, s", "fit, CPU s", "people/s", "per CPU s", "refined: people/s", "per CPU s")
        yield _table("Adult in one batch, one thread", heads, rows)
    if rows := list(_literal(figures)):
        heads = ("row", "data", "as in bench", "re-implemented", "least and largest draw", "asked for")
        yield _table("GenRe's score, by the protocol of bench and re-implemented literally", heads, rows)
    if rows := list(_found(figures)):
        yield _table("Share of people with an option (asked for: .95)", ("method", *list(TITLES.values())[:3]), rows)
    if rows := list(_violations(figures)):
        title = "Share of people whose first proposal breaks a limit, before anything is mended (asked for: 0)"
        yield _table(title, ("method", *TITLES), rows)
    left = [name for name in figures if name in TARGET and not name.endswith(".score")]
    if left:
        rows = [(name, f"{figures[name]['value']:.4g}", TARGET[name]) for name in left]
        yield _table("Asked for", ("figure", "value", "asked for"), rows)


def _paper(figures: Figures, data: str) -> Iterator[tuple[str, ...]]:
    stem = f"paper.{data}."
    names = [name for name in _methods(figures, stem) if f"{stem}{name}.score" in figures]
    for name in sorted(names, key=lambda name: -figures[f"{stem}{name}.score"]["value"]):
        own = [f"{figures[f'{stem}{name}.{m}']['value']:.2f}" for m in MEASURES[:-1]]
        refined = figures.get(f"{stem}{name}.refined.score")
        published = [PAPER.get(f"{stem}{name}.{m}", "") for m in MEASURES]
        yield (
            name,
            *own,
            _with_interval(figures[f"{stem}{name}.score"], 3),
            "" if refined is None else _with_interval(refined, 3),
            " / ".join(published) if any(published) else "",
            TARGET.get(f"{stem}{name}.score", ""),
        )


def _strict(figures: Figures, data: str) -> Iterator[tuple[str, ...]]:
    stem, rows = f"{data}.", []
    for name in _methods(figures, stem):
        for way in ("", ".refined"):
            if f"{stem}{name}{way}.rank" in figures:
                entries = [figures.get(f"{stem}{name}{way}.{measure}") for measure in BOARD]
                cells = [
                    "-"
                    if entry is None
                    else _with_interval(entry, digits)
                    if measure in WITH_INTERVAL
                    else f"{entry['value']:.{digits}f}"
                    for entry, (measure, digits) in zip(entries, BOARD.items())
                ]
                refined = "" if name == "nothing" else "yes" if way else "no"
                rows.append((figures[f"{stem}{name}{way}.rank"]["value"], (name, refined, *cells)))
    yield from (row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _speed(figures: Figures) -> Iterator[tuple[str, ...]]:
    for name in _methods(figures, "adult."):
        stem = f"adult.{name}"
        if f"{stem}.fit_seconds" in figures:
            parts = ("fit_seconds", "fit_cpu_seconds")
            fit = [f"{figures[f'{stem}.{part}']['value']:.1f}" for part in parts]
            rates = [
                f"{figures[f'{stem}{way}.{part}']['value']:,.0f}"
                for way in ("", ".refined")
                for part in ("people_per_second", "people_per_cpu_second")
            ]
            yield name, *fit, *rates


def _literal(figures: Figures) -> Iterator[tuple[str, ...]]:
    for name in ("nothing", "NNR_both"):
        for data in TITLES:
            entry, ours = figures.get(f"literal.{data}.{name}.score"), figures.get(f"paper.{data}.{name}.score")
            if entry is not None:
                ends = f"{entry['min']:.2f} to {entry['max']:.2f}" if "min" in entry else ""
                told = "-" if ours is None else f"{ours['value']:.2f}"
                asked = TARGET.get(f"paper.{data}.{name}.score", "")
                yield name, TITLES[data], told, f"{entry['value']:.2f}", ends, asked


def _found(figures: Figures) -> Iterator[tuple[str, ...]]:
    sets = list(TITLES)[:3]
    for name in ("possible", *dict.fromkeys(name for data in sets for name in _methods(figures, f"{data}."))):
        ends = "" if name == "possible" else ".found"
        found = [figures.get(f"{data}.{name}{ends}") for data in sets]
        if any(found) and name != "nothing":
            told = "for whom no plan is proved impossible" if name == "possible" else name
            yield told, *("-" if entry is None else f"{entry['value']:.3f}" for entry in found)


def _violations(figures: Figures) -> Iterator[tuple[str, ...]]:
    everybody = [name for data in TITLES for name in _methods(figures, f"{data}.")]
    for name in dict.fromkeys(everybody):
        found = [figures.get(f"{data}.{name}.violations") for data in TITLES]
        if any(found):
            yield name, *("-" if entry is None else f"{entry['value']:.3g}" for entry in found)


def _methods(figures: Figures, stem: str) -> list[str]:
    names = (name.removeprefix(stem).split(".") for name in figures if name.startswith(stem))
    return list(dict.fromkeys(parts[0] for parts in names if len(parts) > 1))


def _counted(entry: dict[str, Any]) -> str:
    seeds = entry["seeds"]
    return (
        f"{entry['people']:,} people{' of each of' if seeds > 1 else ','} {seeds} {'seed' if seeds == 1 else 'seeds'}"
    )


def _with_interval(entry: dict[str, Any], digits: int) -> str:
    value = f"{entry['value']:.{digits}f}"
    return f"{value} [{entry['low']:.{digits}f}, {entry['high']:.{digits}f}]" if "low" in entry else value


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads), *(f"| {' | '.join(row)} |" for row in rows)]
    return f"\n### {title}\n\n" + "\n".join(lines)
