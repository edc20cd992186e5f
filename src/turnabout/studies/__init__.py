"""Replays of papers and checks of theorems. Nothing else in the package imports this room, but for the command line.

domains : published studies of plans; people, network, actions.
sentences : recourse training on sentences.
gaussian : the study of two Gaussians, and the coverage of intervals.
strategic : lenders that look at their own risk.
attribution_maps : attributions as advice, and the theorem that says what they cannot be.
lime_limits, stein, axioms : what LIME tends to, Stein's identity, and the axioms of attributions, as tests.
"""

__all__ = ["attribution_maps", "axioms", "domains", "gaussian", "lime_limits", "sentences", "stein", "strategic"]


def __getattr__(name: str) -> object:
    if name in __all__:  # loaded when first used
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
