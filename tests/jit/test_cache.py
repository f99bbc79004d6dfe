"""The cache of compiled kernels: kept, keyed by all kernel sources, and never a reason to fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elgo.jit.cache import KERNEL_FOLDERS, PACKAGE, source_hash

CALLEE = "from numba import njit\n@njit\ndef callee(x):\n    return x + {add}\n"
CALLER = """
from elgo.jit.cache import cached_njit
from elgo.search.callee import callee
@cached_njit()
def caller(x):
    return callee(x)
"""
RUN = """
import logging, sys
logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
from elgo.search.caller import caller
print(caller(1))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with the real cache, a kernel, and what that calls in another file."""
    for name in ("", *KERNEL_FOLDERS):
        folder = tmp_path / "elgo" / name
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    (tmp_path / "elgo/jit/cache.py").write_text((PACKAGE / "jit/cache.py").read_text())
    (tmp_path / "elgo/search/caller.py").write_text(CALLER)
    (tmp_path / "elgo/search/callee.py").write_text(CALLEE.format(add=1))
    return tmp_path


def run(package: Path, before: str = "", **changes: str) -> list[str]:
    environment = os.environ | {"XDG_CACHE_HOME": str(package / "cache"), "PYTHONPATH": str(package)} | changes
    done = subprocess.run(
        [sys.executable, "-c", before + RUN], cwd=package, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def cached(package: Path, ending: str) -> list[Path]:
    return sorted((package / "cache").rglob(f"*.{ending}"))


COMPILING = "compiling (once, about 20 s)"


def test_compiled_once(package: Path) -> None:
    assert run(package) == [COMPILING, "2"]
    assert run(package) == ["2"]


def test_a_change_of_a_callee_in_another_file_is_seen(package: Path) -> None:
    run(package)
    (package / "elgo/search/callee.py").write_text(CALLEE.format(add=10))
    assert run(package) == [COMPILING, "11"]
    (package / "elgo/search/callee.py").write_text(CALLEE.format(add=1))
    assert run(package) == ["2"]


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95", b"no pickle"])
def test_damaged_files_are_replaced(package: Path, ending: str, content: bytes) -> None:
    run(package)
    for file in cached(package, ending):
        file.write_bytes(content)
    assert run(package) == [COMPILING, "2"]
    assert run(package) == ["2"]


def test_without_a_folder_every_process_compiles(package: Path) -> None:
    (package / "cache").write_text("a file where the folder should be")
    for _ in range(2):
        first, second, answer = run(package)
        assert (first, answer) == (COMPILING, "2")
        assert second.endswith("Not a directory; every process compiles anew (about 20 s)")


def test_without_a_home(package: Path) -> None:
    first, second, answer = run(package, XDG_CACHE_HOME="", HOME="/dev/null/nobody")
    assert (first, answer) == (COMPILING, "2")
    assert second.startswith("/dev/null/nobody")


def test_a_full_disk(package: Path) -> None:
    """Files may be created, but nothing can be written to them."""
    first, second, answer = run(package, "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")
    assert (first, answer) == (COMPILING, "2")
    assert second.endswith("; every process compiles anew (about 20 s)")
    assert run(package) == [COMPILING, "2"]  # nothing half-written is in the way
    assert run(package) == ["2"]


def test_the_hash_is_that_of_all_kernel_sources(package: Path) -> None:
    before = source_hash(package / "elgo")
    (package / "elgo/decode/more.py").write_text("x = 1\n")
    assert source_hash(package / "elgo") != before
