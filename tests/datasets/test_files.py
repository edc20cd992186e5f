"""Where files are looked for, and what happens when they are absent, wrong, or somebody else's bytes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import urllib.error
import zipfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from turnabout import datasets
from turnabout.datasets import catalog, compas, data_files, taiwan
from turnabout.datasets.data_files import SourceFile, obtain
from turnabout.errors import DataError

CONTENT = b"a,b\n1,2\n"
SOURCE = SourceFile("toy", "toy.csv", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture(autouse=True)
def empty_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of data, an empty cache, and no network."""
    monkeypatch.delenv("TURNABOUT_DATA", raising=False)
    monkeypatch.setenv("TURNABOUT_CACHE", str(tmp_path / "cache"))
    online = data_files.urllib.request.urlopen

    def only_local(url: str, timeout: float) -> object:
        if not url.startswith("file:"):
            raise urllib.error.URLError("no network")
        return online(url, timeout=timeout)

    monkeypatch.setattr(data_files.urllib.request, "urlopen", only_local)


def published(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return path.as_uri()


def cached(tmp_path: Path) -> list[str]:
    return sorted(str(p.relative_to(tmp_path / "cache")) for p in (tmp_path / "cache").rglob("*") if p.is_file())


@pytest.mark.parametrize("packed", [False, True])
def test_the_named_folder_is_read_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    (tmp_path / "data" / "toy").mkdir(parents=True)
    path = tmp_path / "data" / "toy" / ("toy.csv.gz" if packed else "toy.csv")
    path.write_bytes(gzip.compress(CONTENT) if packed else CONTENT)
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path / "data"))
    data_files.keep(SOURCE, b"not asked for")
    found = obtain(SOURCE)
    assert found.content == CONTENT
    assert found.where == str(path)


def test_then_the_cache(tmp_path: Path) -> None:
    data_files.keep(SOURCE, CONTENT)
    assert obtain(SOURCE).where == str(tmp_path / "cache" / "toy" / "toy.csv")


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNABOUT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_files.cache_folder() == tmp_path / "turnabout"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_files.cache_folder() == Path.home() / ".cache" / "turnabout"


def test_then_the_publisher_and_the_file_is_kept(tmp_path: Path) -> None:
    source = replace(SOURCE, url=published(tmp_path / "there.csv", CONTENT))
    assert obtain(source).content == CONTENT
    assert cached(tmp_path) == ["toy/toy.csv"]  # nothing half-written is left beside it
    (tmp_path / "there.csv").unlink()
    assert obtain(source).content == CONTENT  # from the cache now


def test_a_file_inside_the_publishers_archive(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner.csv", CONTENT)
    url = published(tmp_path / "there.zip", packed.getvalue())
    assert obtain(replace(SOURCE, url=url, member="inner.csv")).content == CONTENT
    with pytest.raises(DataError, match="could not be had"):
        obtain(replace(SOURCE, file="other.csv", url=url, member="absent.csv"))
    not_zip = published(tmp_path / "page.html", b"<html>")
    with pytest.raises(DataError, match="could not be had"):
        obtain(replace(SOURCE, file="other.csv", url=not_zip, member="inner.csv"))


def test_a_wrong_download_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="wrong checksum"):
        obtain(replace(SOURCE, url=published(tmp_path / "there.csv", b"a,b\n1,3\n")))
    assert not cached(tmp_path)


def test_a_wrong_file_on_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data.gz").write_bytes(gzip.compress(b"39, State-gov\n"))
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"wrong checksum(.|\n)*Hint: replace or remove"):
        datasets.load("adult")


def test_a_damaged_file_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.csv.gz").write_bytes(gzip.compress(CONTENT)[:-9])
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        obtain(SOURCE)


def test_a_folder_that_is_not_there_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="not a folder"):
        datasets.load("adult")


def test_offline_the_error_names_the_address_and_the_folder() -> None:
    with pytest.raises(DataError) as caught:
        datasets.load("adult")
    assert "https://archive.ics.uci.edu/static/public/2/adult.zip" in str(caught.value)
    assert "Hint:" in str(caught.value)
    assert "TURNABOUT_DATA" in str(caught.value)


@pytest.mark.parametrize(("name", "site"), [("heloc", "fico.com"), ("gmc", "kaggle.com"), ("bail", "icpsr")])
def test_what_needs_registration_says_where_to_get_it(name: str, site: str) -> None:
    with pytest.raises(DataError, match=rf"no open download(.|\n)*Hint:(.|\n)*{site}(.|\n)*TURNABOUT_DATA"):
        datasets.load(name)


def test_the_embedded_set_needs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert len(datasets.load("german")) == 1000
    assert not (tmp_path / "cache").exists()
    assert not datasets.describe().set_index("name").loc["adult", "available"]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert obtain(replace(SOURCE, url=published(tmp_path / "there.csv", CONTENT))).content == CONTENT


def test_compas_personal_columns_never_reach_the_cache(data_home: Path, tmp_path: Path, monkeypatch) -> None:
    """The publisher's file has seven columns more than the reviewed one; its values are accepted, its names are not."""
    raw = gzip.decompress((data_home / "compas" / "compas-scores-two-years.csv.gz").read_bytes())
    rows = list(csv.reader(io.StringIO(raw.decode())))
    out = io.StringIO()
    csv.writer(out).writerows([[*row[:1], *(f"{n} Doe, J." for n in compas.PERSONAL), *row[1:]] for row in rows[1:]])
    head = ",".join([rows[0][0], *compas.PERSONAL, *rows[0][1:]])
    url = published(tmp_path / "published.csv", (head + "\r\n" + out.getvalue()).encode())
    _publish(monkeypatch, "compas", url)
    data = datasets.load("compas")
    assert (len(data), int(data.accepted.sum())) == (6172, 3363)
    kept = (tmp_path / "cache" / "compas" / "compas-scores-two-years.csv").read_bytes()
    assert b"Doe" not in kept
    assert not set(compas.PERSONAL) & set(pd.read_csv(io.BytesIO(kept), nrows=1))
    pd.testing.assert_frame_equal(datasets.load("compas").people, data.people)  # from the cache


def test_taiwan_in_the_publishers_own_format(data_home: Path, tmp_path: Path, monkeypatch) -> None:
    raw = gzip.decompress((data_home / "taiwan" / "default_of_credit_card_clients.csv.gz").read_bytes())
    table = pd.read_csv(io.BytesIO(raw))
    table.columns = pd.Index(["ID", *(f"X{i}" for i in range(1, 24)), "Y"])
    _publish(monkeypatch, "taiwan", published(tmp_path / "data.csv", table.to_csv(index=False).encode()))
    assert len(datasets.load("taiwan")) == 30000
    assert cached(tmp_path) == ["taiwan/default_of_credit_card_clients.csv"]


@pytest.mark.parametrize("change", ["value", "rubbish"])
def test_other_bytes_with_other_values_are_refused(
    data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    raw = gzip.decompress((data_home / "taiwan" / "default_of_credit_card_clients.csv.gz").read_bytes())
    wrong = raw.replace(b",20000,2,", b",20001,2,", 1) if change == "value" else b"<html>moved</html>"
    assert wrong != raw
    (tmp_path / "data" / "taiwan").mkdir(parents=True)
    (tmp_path / "data" / "taiwan" / taiwan.SOURCE.file).write_bytes(wrong)
    monkeypatch.setenv("TURNABOUT_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match="wrong checksum" if change == "value" else "does not hold the taiwan data"):
        datasets.load("taiwan")


def _publish(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    """Let the data set's only file be published at that address."""
    recipes = tuple(
        replace(recipe, sources=(replace(recipe.sources[0], url=url),)) if recipe.name == name else recipe
        for recipe in catalog.ALL
    )
    monkeypatch.setattr(catalog, "ALL", recipes)
