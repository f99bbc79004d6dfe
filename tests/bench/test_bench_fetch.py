"""Fetching, with a stand-in for the network."""

import gzip
from pathlib import Path
from urllib.error import URLError

import pytest
import small

from elgo.bench.fetch import CVRPLIB, TSPLIB, fetch
from elgo.bench.sets import TSPLIB_NAMES, load_set
from elgo.problem.files.tsplib import format_tsplib


def site(url: str) -> bytes:
    """A TSPLIB on which every instance has the same points."""
    if url == f"{TSPLIB}/STSP.html":
        return "".join(f"<LI><a href='x'>{name}</a> : 123 (info)" for name in TSPLIB_NAMES).encode()
    assert url.startswith(f"{TSPLIB}/tsp/")
    assert url.endswith(".tsp.gz")
    return gzip.compress(format_tsplib(small.instance("tsp")).encode())


def test_tsplib(tmp_path: Path) -> None:
    lines: list[str] = []
    fetch("tsplib", tmp_path, lines.append, site)
    assert lines[-1] == f"tsplib: all 50 files are in {tmp_path / 'tsplib'}"
    found = load_set("tsplib", tmp_path)
    assert len(found.entries) == 49
    assert {entry.instance.best_known for entry in found.entries} == {123}

    def closed(url: str) -> bytes:
        raise AssertionError("nothing is missing")

    fetch("tsplib", tmp_path, lines.append, closed)


def test_without_a_network(tmp_path: Path) -> None:
    def unreachable(url: str) -> bytes:
        raise URLError("Name or service not known")

    with pytest.raises(ValueError, match=r"cannot be fetched \(Name or service not known\)") as error:
        fetch("cvrplib-x", tmp_path, print, unreachable)
    line = str(error.value)
    assert line.startswith(f"{CVRPLIB}/X/X-n101-k25.vrp: ")
    assert f"200 of 200 files of cvrplib-x are missing in {tmp_path / 'cvrplib' / 'X'} (X-n101-k25.vrp, " in line
    assert "\n" not in line


def test_what_is_no_problem_file_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be fetched \(X-n101-k25.vrp: "):
        fetch("cvrplib-x", tmp_path, print, lambda url: b"<html>moved</html>")
    with pytest.raises(ValueError, match="cannot be fetched"):
        fetch("tsplib", tmp_path, print, lambda url: b"no gzip")
    assert not list(tmp_path.rglob("*.*"))
    with pytest.raises(ValueError, match="uniform: no such set to fetch; there are tsplib, cvrplib-x, cvrplib-xxl"):
        fetch("uniform", tmp_path, print)
