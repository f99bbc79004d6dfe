"""The optional dependency on pyarrow."""

import importlib
from typing import Any

from elgo.problem.errors import ElgoError


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Return a module of pyarrow; ElgoError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ElgoError("Parquet needs pyarrow: pip install 'elgo[parquet]'") from None
