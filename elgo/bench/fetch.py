"""Download of TSPLIB and CVRPLIB files from their own sites."""

from __future__ import annotations

import gzip
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from elgo.bench.sets import FILE_SETS, set_folder
from elgo.problem.files import atomic_write, parse_tsplib

TSPLIB = "http://comopt.ifi.uni-heidelberg.de/software/TSPLIB95"
CVRPLIB = "http://vrp.galgos.inf.puc-rio.br/media/com_vrp/instances"
TIMEOUT = 30.0  # seconds
_OPTIMUM = re.compile(r"\b([A-Za-z]+\d+[a-z]?)\s*:\s*(\d+)\b")

Open = Callable[[str], bytes]  # URL -> content


def download(url: str) -> bytes:
    """Return the content at the address."""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        content: bytes = answer.read()
    return content


def files_of(name: str, data: Path) -> list[Path]:
    """Return the paths of all files of a set below the data folder."""
    known, folder = FILE_SETS[name], set_folder(name, data)
    files = [folder / f"{stem}{known.suffix}" for stem in known.names]
    if name == "tsplib":
        return [*files, folder / "optima.csv"]
    return [file.with_suffix(suffix) for file in files for suffix in (".vrp", ".sol")]


def fetch(name: str, data: Path, report: Callable[[str], None], open_url: Open = download) -> None:
    """Download the missing files of a set; ValueError naming what is still missing if the site does not answer."""
    if name not in FILE_SETS:
        raise ValueError(f"{name}: no such set to fetch; there are {', '.join(FILE_SETS)}")
    files = files_of(name, data)
    for number, file in enumerate(files, start=1):
        if file.is_file():
            continue
        try:
            content = _content(name, file, open_url)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise ValueError(_error_line(name, files, file, error)) from None
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, content)
        report(f"{number}/{len(files)} {file.name}")
    report(f"{name}: all {len(files)} files are in {files[0].parent}")


def url_of(name: str, file: Path) -> str:
    """Return the URL of a file of a set."""
    if name == "tsplib":
        return f"{TSPLIB}/STSP.html" if file.suffix == ".csv" else f"{TSPLIB}/tsp/{file.name}.gz"
    return f"{CVRPLIB}/{'X' if name == 'cvrplib-x' else 'XXL'}/{file.name}"


def _content(name: str, file: Path, open_url: Open) -> bytes:
    raw = open_url(url_of(name, file))
    if file.suffix == ".csv":
        return _optima(raw.decode("latin-1"), FILE_SETS[name].names).encode()
    if name == "tsplib":
        raw = gzip.decompress(raw)
    if file.suffix in (".tsp", ".vrp"):
        parse_tsplib(raw.decode("latin-1"), file.name)  # so that no error page is stored as a problem
    elif b"Route" not in raw:
        raise ValueError("has no line 'Route #1: ...'")
    return raw


def _optima(page: str, names: Sequence[str]) -> str:
    """Return the list of optimal lengths on TSPLIB's page as a CSV table."""
    found = dict(_OPTIMUM.findall(re.sub(r"<[^>]*>", " ", page)))
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"has no optimum of {missing[0]}")
    return "".join(["name,optimum\n", *(f"{name},{found[name]}\n" for name in names)])


def _error_line(name: str, files: Sequence[Path], file: Path, error: Exception) -> str:
    """Return one line that says what failed, what is missing and where it belongs."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    missing = [file.name for file in files if not file.is_file()]
    shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    return (
        f"{url_of(name, file)}: cannot be fetched ({' '.join(str(reason).split())}); {len(missing)} of {len(files)} "
        f"files of {name} are missing in {files[0].parent} ({shown}): without a network, copy them there from "
        f"{urlsplit(url_of(name, file)).netloc}"
    )
