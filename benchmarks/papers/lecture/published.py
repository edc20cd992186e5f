"""What the lecture and the papers behind it print, and what was asked for, by the name of the figure."""

from __future__ import annotations

# The lecture's slides on the risks of recourse print 0.11 and 0.30; three digits are from the authors' parameters.
PAPER = {
    "gaussian.before": "0.11",
    "gaussian.after": "0.30",
}

STRATEGIC = {  # exact quadrature, by distance: compliant and defiant risk of f*, after
    # moving by D, best shift, where; newly forced to move after moving by D; approved after the best shift
    0.5: ("0.13374", "0.14336", "0.11521", "0.12411", "0.11515", "0.472", "0.0843", "0.5046"),
    1.0: ("0.16004", "0.19598", "0.09684", "0.12411", "0.09504", "0.855", "0.1716", "0.5243"),
    2.0: ("0.23366", "0.34322", "0.07104", "0.12411", "0.05298", "1.469", "0.3406", "0.5897"),
}

TARGET = {
    "gaussian.before": "0.109",
    "gaussian.after": "0.300",
    "gaussian.population.before": "0.1241",
    "gaussian.population.compliant": "0.3121",
    "gaussian.population.defiant": "0.5",
    "gaussian.boundary.break_even": "2",
    "gaussian.mirror.delta": "0",
    "gaussian.at70.after": "0.2121",
    "gaussian.at90.after": "0.1121",
    "gaussian.at70.break_even": "1.31",
    "gaussian.at90.break_even": "0.969",
    "gaussian.boundary.cost": "1.565",
    "gaussian.at70.cost": "2.014",
    "gaussian.neutral.cost": "2.601",
    "gaussian.neutral.landing": "0.8759",
    "gaussian.at90.cost": "2.730",
    "gaussian.mirror.cost": "3.130",
    "theorem.gradient.rate": "0.9995",
    "theorem.nearest.rate": "1.0000",
    "theorem.constant.rate": "0.6667",
    "theorem.smoothgrad01.lipschitz": "7.98",
    "theorem.smoothgrad05.lipschitz": "1.60",
    "theorem.gradient.jump": "2.0",
    "theorem.nearest.jump": "1.5",
    "lime.image.c1": "-6.941846",
    "lime.image.c2": "8.529944",
    "lime.image.c3": "0.565745",
    "smoothgrad.probit.0": "0.19564019",
    "smoothgrad.probit.1": "-0.39128037",
    "kernelshap.speedup_over_shap": ">= 10",
    "lime.speedup_over_lime": ">= 10",
    "risk.seconds_100000": "<= 5",
    "shapley.seconds_16_features": "<= 0.1",
    "lime_image.times_model_calls": "<= 2",
    "interval.coverage": "0.93 to 0.97",
    "interval.coverage_least": "0.93 to 0.97",
    "interval.coverage_most": "0.93 to 0.97",
}
for _distance, _row in STRATEGIC.items():
    _names = ("stay.compliant", "stay.defiant", "shift.compliant", "shift.defiant", "best.compliant")
    _names += ("best.shift", "shift.newly_forced", "best.approved")
    TARGET |= {f"strategic.D{_distance:g}.{_name}": _value for _name, _value in zip(_names, _row, strict=True)}
