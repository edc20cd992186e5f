"""The parts of benchmarks/papers/action_sequences.py: one module for each question asked of the paper."""
