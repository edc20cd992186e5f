"""Torch parts shared by methods and training. Imports no scikit-learn."""
