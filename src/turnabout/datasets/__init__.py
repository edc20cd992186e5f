"""Data sets people are judged by, each with a reviewed schema; nothing is downloaded at import.

``load("german")`` works everywhere: it is part of the package. The others are looked for in the folder named
by ``TURNABOUT_DATA``, then in the user's cache, then on the publisher's site; every file is checked against
a known checksum before it is read. Sentences and words (`sentences`, `phrases`, `antonyms`) are never downloaded.
"""

from turnabout.datasets.catalog import describe, load, names
from turnabout.datasets.dataset import Dataset

__all__ = ["Dataset", "describe", "load", "names"]


def __dir__() -> list[str]:
    return __all__
