"""`elgo data fetch`: TSPLIB and CVRPLIB files from their own sites, for those who have a network.

(vrplib had a downloader once; its versions since 2 have none.)
"""

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
SECONDS = 30.0  # without an answer
_OPTIMUM = re.compile(r"\b([A-Za-z]+\d+[a-z]?)\s*:\s*(\d+)\b")

Open = Callable[[str], bytes]


def download(url: str) -> bytes:
    """What is at the address."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        content: bytes = answer.read()
    return content


def wanted(name: str, data: Path) -> list[Path]:
    """All files of a set, where they belong below the data folder."""
    known, folder = FILE_SETS[name], set_folder(name, data)
    files = [folder / f"{stem}{known.suffix}" for stem in known.names]
    if name == "tsplib":
        return [*files, folder / "optima.csv"]
    return [file.with_suffix(suffix) for file in files for suffix in (".vrp", ".sol")]


def fetch(name: str, data: Path, report: Callable[[str], None], opened: Open = download) -> None:
    """Download what is missing of a set; ValueError naming what still is, if the site does not answer."""
    if name not in FILE_SETS:
        raise ValueError(f"{name}: no such set to fetch; there are {', '.join(FILE_SETS)}")
    files = wanted(name, data)
    for number, file in enumerate(files, start=1):
        if file.is_file():
            continue
        try:
            content = _content(name, file, opened)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise ValueError(_complaint(name, files, file, error)) from None
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, content)
        report(f"{number}/{len(files)} {file.name}")
    report(f"{name}: all {len(files)} files are in {files[0].parent}")


def address(name: str, file: Path) -> str:
    """Where a file of a set comes from."""
    if name == "tsplib":
        return f"{TSPLIB}/STSP.html" if file.suffix == ".csv" else f"{TSPLIB}/tsp/{file.name}.gz"
    return f"{CVRPLIB}/{'X' if name == 'cvrplib-x' else 'XXL'}/{file.name}"


def _content(name: str, file: Path, opened: Open) -> bytes:
    raw = opened(address(name, file))
    if file.suffix == ".csv":
        return _optima(raw.decode("latin-1"), FILE_SETS[name].names).encode()
    if name == "tsplib":
        raw = gzip.decompress(raw)
    if file.suffix in (".tsp", ".vrp"):
        parse_tsplib(raw.decode("latin-1"), file.name)  # an error page is not stored as a problem
    elif b"Route" not in raw:
        raise ValueError("has no line 'Route #1: ...'")
    return raw


def _optima(page: str, names: Sequence[str]) -> str:
    """TSPLIB's list of optimal lengths as the table `name,cost`."""
    found = dict(_OPTIMUM.findall(re.sub(r"<[^>]*>", " ", page)))
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"names no optimum of {missing[0]}")
    return "".join(["name,optimum\n", *(f"{name},{found[name]}\n" for name in names)])


def _complaint(name: str, files: Sequence[Path], file: Path, error: Exception) -> str:
    """One line: what failed, what is missing and where it belongs."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    missing = [file.name for file in files if not file.is_file()]
    shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    return (
        f"{address(name, file)}: cannot be fetched ({' '.join(str(reason).split())}); {len(missing)} of {len(files)} "
        f"files of {name} are missing in {files[0].parent} ({shown}): without a network, copy them there from "
        f"{urlsplit(address(name, file)).netloc}"
    )
