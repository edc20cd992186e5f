"""Parts of benchmarks/papers/pare.py."""
