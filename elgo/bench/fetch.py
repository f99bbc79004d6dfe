"""Download of TSPLIB and CVRPLIB files from their own sites."""

import gzip
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from elgo.bench.sets import FILE_SETS, set_folder
from elgo.problem.errors import ElgoError
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


def fetch(name: str, data: Path, report: Callable[[str], None], open_url: Open = download) -> None:
    """Download the missing files of a set; ElgoError naming what is still missing if the site does not answer."""
    if name not in FILE_SETS:
        raise ElgoError(f"{name}: no such set to fetch; there are {', '.join(FILE_SETS)}")
    folder, stems = set_folder(name, data), FILE_SETS[name].names
    if name == "tsplib":
        urls = {f"{stem}.tsp": f"{TSPLIB}/tsp/{stem}.tsp.gz" for stem in stems}
        urls["optima.csv"] = f"{TSPLIB}/STSP.html"
    else:
        site = f"{CVRPLIB}/{'X' if name == 'cvrplib-x' else 'XXL'}"
        urls = {f"{stem}{suffix}": f"{site}/{stem}{suffix}" for stem in stems for suffix in (".vrp", ".sol")}
    for number, (file, url) in enumerate(urls.items(), start=1):
        if (folder / file).is_file():
            continue
        try:
            content = _convert(file, open_url(url), stems)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            reason = " ".join(str(error.reason if isinstance(error, urllib.error.URLError) else error).split())
            missing = [other for other in urls if not (folder / other).is_file()]
            shown = ", ".join([*missing[:3], *(["..."] if len(missing) > 3 else [])])
            raise ElgoError(
                f"{url}: cannot be fetched ({reason}); {len(missing)} of {len(urls)} files of {name} are missing in "
                f"{folder} ({shown}): without a network, copy them there from {urlsplit(url).netloc}"
            ) from None
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / file, content)
        report(f"{number}/{len(urls)} {file}")
    report(f"{name}: all {len(urls)} files are in {folder}")


def _convert(file: str, raw: bytes, names: Sequence[str]) -> bytes:
    """Return the content of a file from what the site answers; ElgoError if that is something else."""
    if file.endswith(".csv"):  # from the list of optimal lengths on TSPLIB's page
        found = dict(_OPTIMUM.findall(re.sub(r"<[^>]*>", " ", raw.decode("latin-1"))))
        missing = [name for name in names if name not in found]
        if missing:
            raise ElgoError(f"has no optimum of {missing[0]}")
        return "".join(["name,optimum\n", *(f"{name},{found[name]}\n" for name in names)]).encode()
    if file.endswith(".sol"):
        if b"Route" not in raw:
            raise ElgoError("has no line 'Route #1: ...'")
        return raw
    content = gzip.decompress(raw) if file.endswith(".tsp") else raw
    parse_tsplib(content.decode("latin-1"), file)  # so that no error page is stored as a problem
    return content
