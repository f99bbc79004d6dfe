"""Numba's compiler with a cache of our own, in the user's cache folder.

Numba's own cache looks at the source of one function: after a change of what that function calls, in another file, it
runs stale machine code. Here the folder's name is a hash of all kernel sources, the versions of Python and numba, and
the CPU. A cache that cannot be read or written costs time, never the answer.
"""

import hashlib
import logging
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite.binding import get_host_cpu_name
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.np import linalg

PACKAGE = Path(__file__).parents[1]
KERNEL_FOLDERS = ("jit", "search", "decode", "train")  # all of whose modules count as kernel sources

Function = TypeVar("Function", bound=Callable[..., Any])
log = logging.getLogger("elgo")


def cached_njit(**options: Any) -> Callable[[Function], Function]:
    """Return numba's decorator `njit` with these options, whose machine code is kept for later processes."""

    def decorate(function: Function) -> Function:
        kernel: Any = njit(**options)(function)
        kernel._cache = KernelCache(function)  # as numba's cache=True sets its own
        return kernel

    return decorate


def _import_arraymath() -> None:
    """Import the module in which numba looks for scipy's BLAS as soon as a kernel is loaded, but without looking.

    That would import scipy.linalg, a quarter of the time to load the search. The decoder, which calls BLAS, imports it.
    """
    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = ensure_blas


_import_arraymath()


@cache
def cache_folder() -> Path:
    """Return the folder of the machine code of this very package, compiler and CPU."""
    from platformdirs import user_cache_path

    parts = [platform.python_version(), numba.__version__, get_host_cpu_name(), source_hash(PACKAGE)]
    return user_cache_path("elgo", appauthor=False) / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def source_hash(package: Path) -> str:
    """Return a hash of all kernel sources of the package."""
    files = sorted(file for name in KERNEL_FOLDERS for file in (package / name).glob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


@cache  # once per process
def _say(level: int, message: str) -> None:
    log.log(level, message)


class _Locator(_CacheLocator):
    """Tells numba where the machine code of a function is."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file, self._module = file, function.__module__

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Locator":
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return ""  # the folder's name has it

    def get_disambiguator(self) -> str:
        return self._module


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class KernelCache(FunctionCache):
    """The cache of one function. It says once when something must be compiled, and once when it cannot be kept."""

    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature; None if there is none, or a damaged one."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # whatever unpickling a damaged file raises
            log.debug("%s: %r", self.cache_path, error)
            found = None
        if found is None:
            _say(logging.INFO, "compiling (once, about 20 s)")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature, if it can be written."""
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:  # a damaged index, which numba reads before it writes
                self.flush()
                super().save_overload(sig, data)
        except OSError as error:
            reason = error.strerror or error
            _say(logging.WARNING, f"{self.cache_path}: {reason}; every process compiles anew (about 20 s)")
