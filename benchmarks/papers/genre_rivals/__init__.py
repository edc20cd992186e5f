"""Parts of `genre_rivals.py`."""
