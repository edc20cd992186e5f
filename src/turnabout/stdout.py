"""Stdout belongs to data: what libraries in C print there behind Python's back goes to stderr.

HiGHS prints a line from C whenever it repairs a solution of an integer program (`... tmpSolver.run();`), whatever its
options say. Its buffer must be emptied while the way to stdout is still blocked, or it comes out when the process ends.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_lock = threading.Lock()
_inside = 0  # how many callers, of all threads, ask for it now
_kept = -1  # the descriptor of the real stdout meanwhile


@contextmanager
def stdout_for_data() -> Iterator[None]:
    """Send to stderr what is written to the process's stdout meanwhile, by any library and any thread.

    May be nested and used by several threads: the first to enter redirects, the last to leave restores. A process
    without stdout or stderr is left as it is.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _kept
    with _lock:
        _inside += 1
        if _inside > 1:
            return
        _flush()
        with suppress(OSError):  # one of the two is closed
            _kept = os.dup(1)
            os.dup2(2, 1)


def _leave() -> None:
    global _inside, _kept
    with _lock:
        _inside -= 1
        if _inside or _kept < 0:
            return
        _flush()
        os.dup2(_kept, 1)
        os.close(_kept)
        _kept = -1


def _flush() -> None:
    """Empty the buffers of Python and of C."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or none
        sys.stdout.flush()
    with suppress(OSError, AttributeError):  # a platform whose C library is found otherwise
        ctypes.CDLL("ucrtbase" if os.name == "nt" else None).fflush(None)
