"""Words and pictures made of answers; they search nothing and decide nothing. The only home of matplotlib.

Pictures need `pip install "turnabout[plot]"`; importing this room does not.

write_plan, draw_plan, save_plan, draw_strokes : one person's plan.
draw_waterfall, draw_overlay, write_attribution, write_highlight : one person's attribution, image or text.
draw_risk_curve, draw_landings, draw_landing_histogram, draw_groups, draw_sweep : reports.
draw_board, save_board : leader boards.
draw_plane, save_planes : what methods do in two dimensions.
audit_page, explain_page : self-contained pages, from the documents of `turnabout audit` and `turnabout explain`.
"""

from turnabout.render.attribution_drawing import draw_waterfall, write_attribution
from turnabout.render.audit_page import audit_page
from turnabout.render.board_drawing import draw_board, save_board
from turnabout.render.drawing import draw_strokes
from turnabout.render.explain_page import explain_page
from turnabout.render.highlight import write_highlight
from turnabout.render.overlay import draw_overlay
from turnabout.render.plan_drawing import draw_plan, save_plan
from turnabout.render.plan_words import write_plan
from turnabout.render.plane_drawing import draw_plane, save_planes
from turnabout.render.risk import draw_groups, draw_landing_histogram, draw_landings, draw_risk_curve
from turnabout.render.sweep import draw_sweep

__all__ = [
    "audit_page",
    "draw_board",
    "draw_groups",
    "draw_landing_histogram",
    "draw_landings",
    "draw_overlay",
    "draw_plan",
    "draw_plane",
    "draw_risk_curve",
    "draw_strokes",
    "draw_sweep",
    "draw_waterfall",
    "explain_page",
    "save_board",
    "save_plan",
    "save_planes",
    "write_attribution",
    "write_highlight",
    "write_plan",
]


def __dir__() -> list[str]:
    return __all__
