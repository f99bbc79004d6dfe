"""Many instances in one file: arrays (.npz), or pickled lists as the literature exchanges them (.pkl)."""

import io
import pickle
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elgo.problem.distances import Metric
from elgo.problem.errors import ElgoError
from elgo.problem.files.text import errors_name
from elgo.problem.instance import Instance

ARRAY_SUFFIXES = (".npz", ".pkl")
MOST_BYTES = 2 * 10**9  # of a file that is read as a whole, and of the numbers in it


class _Fields(NamedTuple):
    """The numbers of one instance, not checked yet."""

    coords: Any  # (n, 2); CVRP: the depot first
    demand: Any = None  # (n,); 0 for the depot
    capacity: Any = None
    best_known: Any = None


def read_instances(file: Path) -> list[Instance]:
    """Return the instances of an .npz or .pkl file, called STEM-0000, STEM-0001 ..., with unrounded distances.

    .npz: coords (B, n, 2), for CVRP demand (B, n) and capacity (B,) or one number, perhaps reference_cost (B,); the
    depot is node 0. .pkl: a list of (n, 2) coordinates for TSP, or of (depot, loc, demand, capacity) for CVRP.
    """
    found = _instances_of(read_arrays(file), file) if file.suffix.lower() == ".npz" else _parse_pickle(file)
    if not found:
        raise ElgoError(f"{file}: has no instances")
    instances = []
    for i, (coords, demand, capacity, best_known) in enumerate(found):
        with errors_name(f"{file}: instance {i}"):
            capacity, best_known = _number("capacity", capacity), _number("reference_cost", best_known)
            instance = Instance(f"{file.stem}-{i:04d}", coords, Metric.EXACT, demand, capacity)
            instances.append(replace(instance, best_known=best_known))
    return instances


def _read_bytes(file: Path) -> bytes:
    if file.suffix.lower() not in ARRAY_SUFFIXES:
        raise ElgoError(f"{file}: suffix is {file.suffix!r}, expected {' or '.join(ARRAY_SUFFIXES)}")
    if file.exists() and not file.is_file():  # reading a FIFO or a device may never end
        raise ElgoError(f"{file}: is not a regular file")
    try:
        return file.read_bytes()
    except OSError as error:
        raise ElgoError(f"{file}: cannot be read ({error.strerror})") from None


def _check_bytes(count: int, file: Path) -> None:
    """Raise ElgoError if a small file stands for more numbers than fit into memory."""
    if count > MOST_BYTES:
        raise ElgoError(f"{file}: has more than {MOST_BYTES / 1e9:g} GB of numbers")


def _number(name: str, value: Any) -> float | None:
    """Return a value as a number; an array of one number counts as that number."""
    if value is None:
        return None
    try:
        return float(np.asarray(value, dtype=np.float64).reshape(()))
    except (TypeError, ValueError, OverflowError):
        raise ElgoError(f"{name} is {str(value)[:60]}, expected a number") from None


def _reason(error: Exception) -> str:
    """Return an error in few words."""
    return " ".join(str(error).split())[:100] or type(error).__name__


# --- .npz ------------------------------------------------------------------------------------------------------------


def read_arrays(file: Path) -> dict[str, NDArray]:
    """Return the arrays of an .npz file by their names; ElgoError if it is damaged, or holds more than numbers."""
    data = _read_bytes(file)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            _check_bytes(sum(member.file_size for member in stored.zip.infolist()), file)
            return dict(stored)
    except ElgoError:
        raise
    except Exception as error:  # a broken archive raises nearly anything
        raise ElgoError(f"{file}: not an .npz file of numbers ({_reason(error)})") from None


def _instances_of(arrays: dict[str, NDArray], file: Path) -> list[_Fields]:
    is_cvrp = bool({"demand", "capacity"} & set(arrays))
    for name in ("coords", "demand", "capacity") if is_cvrp else ("coords",):
        if name not in arrays:
            raise ElgoError(f"{file}: {name} is missing; the file has {', '.join(arrays) or 'nothing'}")
    coords = arrays["coords"]
    if coords.ndim != 3:
        raise ElgoError(f"{file}: coords has shape {coords.shape}, expected (instances, nodes, 2)")
    count = len(coords)
    if is_cvrp and arrays["capacity"].ndim == 0:
        arrays["capacity"] = np.full(count, arrays["capacity"])
    columns = [coords]
    for name in ("demand", "capacity", "reference_cost"):
        values = arrays.get(name, np.full(count, None))
        if values.shape[:1] != (count,):
            raise ElgoError(f"{file}: {name} has shape {values.shape}, but there are {count} instances in coords")
        columns.append(values)
    return [_Fields(*row) for row in zip(*columns, strict=True)]


# --- .pkl ------------------------------------------------------------------------------------------------------------


def _parse_pickle(file: Path) -> list[_Fields]:
    data = _read_bytes(file)
    try:
        stored = _Unpickler(io.BytesIO(data)).load()
    except _Refused as error:
        raise ElgoError(f"{file}: {error}") from None
    except Exception as error:  # a broken pickle raises nearly anything
        raise ElgoError(f"{file}: not a pickle of lists, tuples, numbers and arrays ({_reason(error)})") from None
    if not isinstance(stored, list | tuple | _Array):
        raise ElgoError(f"{file}: holds a {type(stored).__name__}, expected a list of instances")
    items = list(stored.array) if isinstance(stored, _Array) else list(stored)
    found, used = [], 0
    for i, item in enumerate(items):
        with errors_name(f"{file}: instance {i}"):
            found.append(_parse_item(item.array if isinstance(item, _Array) else item))
        used += found[-1].coords.nbytes
        _check_bytes(used, file)
    return found


def _parse_item(item: Any) -> _Fields:
    """Return the fields of (depot, loc, demand, capacity), or of a list of points."""
    if not isinstance(item, list | tuple | np.ndarray) or len(item) == 0:
        raise ElgoError(f"is {reprlib.repr(item)[:60]}, expected a list of points or (depot, loc, demand, capacity)")
    if isinstance(item, np.ndarray) or not _is_one_number(item[-1]):
        return _Fields(_numbers("coords", item))
    if len(item) != 4:
        raise ElgoError(f"has {len(item)} parts, expected 4: (depot, loc, demand, capacity)")
    depot, loc, demand = (_numbers(name, part) for name, part in zip(("depot", "loc", "demand"), item[:3], strict=True))
    if depot.size != 2:
        raise ElgoError(f"depot has shape {depot.shape}, expected 2 numbers")
    if loc.ndim != 2 or loc.shape[1] != 2 or demand.shape != loc.shape[:1]:
        raise ElgoError(f"loc has shape {loc.shape} and demand {demand.shape}, expected (n, 2) and (n,)")
    return _Fields(np.concatenate([depot.reshape(1, 2), loc]), np.concatenate([[0.0], demand]), item[3])


def _is_one_number(value: Any) -> bool:
    if isinstance(value, _Array):
        return value.array.size == 1
    return not isinstance(value, list | tuple) or len(value) == 1


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return numbers or points as an array; no lists in lists in lists: shared ones may stand for 2^60 numbers."""
    try:
        if isinstance(values, list | tuple) and not all(map(_is_point_or_number, values)):
            raise TypeError
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ElgoError(f"{name} is {reprlib.repr(values)[:60]}, expected an array of numbers") from None


def _is_point_or_number(value: Any) -> bool:
    if isinstance(value, _Array):
        return value.array.size <= 3
    if not isinstance(value, list | tuple):
        return True
    return len(value) <= 3 and not any(isinstance(number, list | tuple | _Array) for number in value)


class _Refused(Exception):
    """Something in a pickle that is neither list, tuple, number nor array."""


class _Unpickler(pickle.Unpickler):
    """Knows the builtin containers and numbers, and arrays as the stand-ins below. No code of a file can run."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """Return the stand-in for what numpy names in a pickle; refuse everything else by its name."""
        known = _STAND_INS.get((module.replace("numpy.core", "numpy._core"), name))
        if known is None:
            raise _Refused(f"has a {module}.{name}; a pickle may hold lists, tuples, numbers and arrays alone")
        return known


class _DType:
    """Stands for numpy.dtype, of numbers alone."""

    def __init__(self, code: str, *_: object) -> None:
        self.dtype = np.dtype(code)
        if self.dtype.kind not in "biuf":
            raise _Refused(f"has an array of dtype {self.dtype}, expected numbers")

    def __setstate__(self, state: Sequence[Any]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands for numpy.ndarray, and for the function that makes an empty one before its state is set."""

    def __init__(self, *_: object) -> None:
        self.array: NDArray = np.empty(0)

    def __setstate__(self, state: Sequence[Any]) -> None:
        _, shape, dtype, fortran, raw = state
        self.array = np.frombuffer(raw, dtype.dtype).reshape(shape, order="F" if fortran else "C")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self.array.astype(dtype or self.array.dtype)

    def __len__(self) -> int:
        return len(self.array)


def _from_buffer(raw: bytes, dtype: _DType, shape: tuple[int, ...], order: str) -> _Array:
    """Return an array as protocol 5 writes it."""
    array = _Array()
    array.__setstate__((1, shape, dtype, order == "F", raw))
    return array


def _scalar(dtype: _DType, raw: bytes) -> float:
    """Return a scalar of numpy as a number."""
    return float(np.frombuffer(raw, dtype.dtype)[0])


def _encode(text: str, encoding: str) -> bytes:
    """Return bytes, which are text up to protocol 2."""
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}
