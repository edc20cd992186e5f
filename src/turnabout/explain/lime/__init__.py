"""LIME for tables, texts and images, and how stable it is."""

from turnabout.explain.lime.common import Stability, stability
from turnabout.explain.lime.lime_image import LimeImage, top_segments
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.lime.lime_text import LimeText
from turnabout.explain.lime.superpixels import Felzenszwalb, Rectangles, Slic

__all__ = [
    "Felzenszwalb",
    "LimeImage",
    "LimeTable",
    "LimeText",
    "Rectangles",
    "Slic",
    "Stability",
    "stability",
    "top_segments",
]


def __dir__() -> list[str]:
    return __all__
