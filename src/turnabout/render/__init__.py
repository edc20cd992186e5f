"""Words and pictures made of answers; they search nothing and decide nothing. The only home of matplotlib.

Pictures need `pip install "turnabout[plot]"`; importing this room does not.
"""

from turnabout.render.plan import draw_plan, save_plan, write_plan
from turnabout.render.sweep import draw_sweep

__all__ = ["draw_plan", "draw_sweep", "save_plan", "write_plan"]
