"""Turnabout: verified algorithmic recourse."""

__version__ = "0.1.0"
