"""Compare methods: data sets x models x methods x seeds, resumable, with a leader board."""

from turnabout.bench.case import BenchCase, Judge

__all__ = ["BenchCase", "Judge"]
