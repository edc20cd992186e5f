"""Where the files are: TURNABOUT_DATA, then the user's cache, then the publisher; checked before they are read."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import io
import os
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turnabout.errors import DataError

TIMEOUT = 60  # seconds without an answer before a download is given up


@dataclass(frozen=True)
class SourceFile:
    """One file a data set is read from.

    Parameters
    ----------
    folder, file : where it lies under TURNABOUT_DATA and in the cache, as ``folder/file`` or ``folder/file.gz``.
    sha256 : of the uncompressed content.
    url : the publisher's own address, empty where one must register or ask.
    member : the file's name inside the publisher's zip archive, empty if the address gives the file itself.
    by_hand : where a person gets the file when there is no address.
    strip : applied to the publisher's bytes before anything is stored, to leave out what must not be kept.
    other_bytes : the publisher's bytes differ from ours; what was read from them is checked instead.
    """

    folder: str
    file: str
    sha256: str
    url: str = ""
    member: str = ""
    by_hand: str = ""
    strip: Callable[[bytes], bytes] | None = None
    other_bytes: bool = False


@dataclass(frozen=True)
class FileContent:
    """Content of a file and where it came from; `exact` if its checksum is the known one."""

    content: bytes
    where: str
    exact: bool


def data_folder() -> Path | None:
    """The folder named by TURNABOUT_DATA, or None."""
    named = os.environ.get("TURNABOUT_DATA", "").strip()
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"TURNABOUT_DATA names {str(folder)!r}, which is not a folder.", hint="correct it, or unset TURNABOUT_DATA."
        )
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: TURNABOUT_CACHE, else turnabout under XDG_CACHE_HOME or ~/.cache."""
    if named := os.environ.get("TURNABOUT_CACHE", "").strip():
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "turnabout"


def on_disk(source: SourceFile) -> Path | None:
    """The file under TURNABOUT_DATA or in the cache, or None."""
    for folder in (data_folder(), cache_folder()):
        if folder is not None:
            for name in (source.file + ".gz", source.file):
                if (path := folder / source.folder / name).is_file():
                    return path
    return None


def obtain(source: SourceFile) -> FileContent:
    """The content of a file: from disk if it is there, else from its publisher; refused if it is not the right one."""
    if (path := on_disk(source)) is not None:
        content = _read(path)
        return _checked(source, content, str(path), "replace or remove that file; it is not the one that was reviewed.")
    content = _download(source)
    found = _checked(source, content, source.url, "the publisher changed it; put the reviewed file in place by hand.")
    if found.exact:
        keep(source, content)
    return found


def keep(source: SourceFile, content: bytes) -> None:
    """Write a checked file into the cache, all of it or nothing; a cache that cannot be written is no error."""
    path = cache_folder() / source.folder / source.file
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{source.file}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}.", hint="replace or remove that file.") from error


def _checked(source: SourceFile, content: bytes, where: str, hint: str) -> FileContent:
    digest = hashlib.sha256(content).hexdigest()
    exact = digest == source.sha256
    if not exact and not source.other_bytes:
        raise DataError(f"{where!r} has the wrong checksum: sha256 {digest}, expected {source.sha256}.", hint=hint)
    return FileContent(content, where, exact)


def _download(source: SourceFile) -> bytes:
    place = f"put {source.file} (or {source.file}.gz) into $TURNABOUT_DATA/{source.folder}/"
    if not source.url:
        raise DataError(
            f"{source.file} is not on this machine, and its publisher offers no open download.",
            hint=f"{source.by_hand} Then {place} or into {str(cache_folder() / source.folder)!r}.",
        )
    try:
        with urllib.request.urlopen(source.url, timeout=TIMEOUT) as reply:
            content: bytes = reply.read()
        if source.member:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(source.member)
        return source.strip(content) if source.strip else content
    # URLError and time-outs are OSErrors; the others mean that something else than the file came back
    except (OSError, http.client.HTTPException, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{source.file} is not on this machine and could not be had from {source.url}: {error}.",
            hint=f"try again when online, or {place} (set TURNABOUT_DATA to a folder of your choice).",
        ) from error
