"""Figures of Ross, Lakkaraju and Bastani (2021), beside ours; and what was asked for."""

from __future__ import annotations

SETS = ("adult", "compas", "bail", "german")
# Table 1: baseline and theirs for each set in turn.
_TABLE_1 = {
    "f1": (".697 .636", ".739 .717", ".775 .760", ".447 .419"),
    "accuracy": (".830 .787", ".667 .565", ".643 .629", ".600 .527"),
    "precision": (".621 .555", ".655 .561", ".646 .644", ".364 .317"),
    "recall": (".799 .752", ".850 .991", ".968 .930", ".583 .638"),
    "recourse_refused_linear": (".220 .053", ".156 .068", ".102 .029", ".204 .086"),
    "recourse_refused_gradient": (".210 .496", ".579 1.000", ".317 1.000", ".804 .864"),
    "recourse_refused_one_step": (".007 .498", ".000 .967", ".000 .993", ".127 .968"),
    "recourse_all_linear": (".453 .328", ".773 .982", ".957 .981", ".607 .593"),
    "recourse_all_gradient": (".461 .661", ".883 1.000", ".970 1.000", ".890 .920"),
    "recourse_all_one_step": (".321 .659", ".722 .999", ".952 .999", ".517 .980"),
}
_TABLE_2 = {  # with the guarantee: F1 and recourse among all
    "f1": (".400 .526", ".722 .721", ".777 .776", ".442 .457"),
    "recourse_all": (".981 .974", ".972 .999", ".996 .999", ".997 1.000"),
}
_TABLE_3 = {"network": ".54 .56 .52 .51", "forest": ".53 .55 .51 .51", "linear": ".51 .48 .48 .47"}
_TABLE_4 = {
    "recourse_gradient": ("1.000 .865", "1.000 1.000", "1.000 1.000", ".949 .898"),
    "recourse_one_step": ("1.000 .841", "1.000 1.000", "1.000 1.000", ".857 1.000"),
    "model": (".976 .926", ".980 1.000", ".994 .996", ".970 .920"),
}
# Read as printed; the paper's precision and recall are exchanged there.
_TABLE_5 = {
    "f1": ".881 .864",
    "accuracy": ".875 .862",
    "precision": ".839 .850",
    "recall": ".926 .878",
    "recourse_refused": ".239 .950",
    "recourse_all": ".656 .976",
}


def _paper() -> dict[str, str]:
    out: dict[str, str] = {}
    for part, table in (("f1max", _TABLE_1), ("pare", _TABLE_2), ("noise", _TABLE_4)):
        for what, entries in table.items():
            for name, both in zip(SETS, entries):
                baseline, ours = both.split()
                out[f"{name}.baseline.{part}.{what}"], out[f"{name}.{part}.{what}"] = baseline, ours
    for kind, line in _TABLE_3.items():
        out |= {f"{name}.told_apart.{kind}": value for name, value in zip(SETS, line.split())}
    for what, both in _TABLE_5.items():
        out[f"sentiment.baseline.{what}"], out[f"sentiment.{what}"] = both.split()
    for what in ("f1", "accuracy", "recourse_refused", "recourse_all"):
        table = _TABLE_1[
            "recourse_refused_one_step" if what == "recourse_refused" else what + "_one_step" * ("all" in what)
        ]
        out[f"replay.compas.baseline.{what}"], out[f"replay.compas.ours.{what}"] = table[1].split()
    for what in ("f1", "recourse_all"):
        out[f"replay.compas.baseline.pare.{what}"], out[f"replay.compas.ours.pare.{what}"] = _TABLE_2[what][1].split()
    return out | {"adult.pare25.f1": ".613"}


PAPER = _paper()
TARGET = {
    **{f"{name}.pare.recourse_all": ">= .95" for name in SETS},
    "adult.pare.f1": ">= .57",
    "compas.pare.f1": ">= .73",
    "adult.f1max.recourse_refused_exact": ">= .75",
    "compas.f1max.accuracy": ">= .655",
    "compas.f1max.f1": ">= .725",
    "adult.baseline.f1max.accuracy": ">= .80",
    "adult.baseline.f1max.f1": ">= .68",
    "pac.failure_rate": "<= .064",
    "pac.failure_rate_tied": "<= .064",
    "pac.n58_refused": "1",
    "pac.n59_k": "0",
    "adult.train_seconds": "<= 60",
    "adult.train_overhead": "<= 2.5",
    "adult.one_step_seconds": "<= .1",
    "adult.exact_seconds": "<= 5",
    "adult.stack_of_110_seconds_cuda": "<= 120",
    **{f"{name}.gradient_finds_of_existing": ">= .99" for name in SETS},
    "replay.compas.baseline.recourse_refused": "<= .01",
    "replay.compas.ours.recourse_all": ">= .99",
    "replay.compas.accuracy_lost": ".06 to .11",
    "german_legacy.f1max.f1": ".42 to .50",
    "german_legacy.f1max.recourse_all_exact": ">= .97",
}
