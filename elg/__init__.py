"""A learned vehicle-routing solver: an ensemble of a local and a global policy for TSP and CVRP."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elg.files import read, read_solution, write_solution
    from elg.instance import Instance
    from elg.solution import Solution
    from elg.solver import Result, SolveConfig, solve

__version__ = "0.1.0"
__all__ = [
    "Instance",
    "Result",
    "Solution",
    "SolveConfig",
    "__version__",
    "read",
    "read_solution",
    "solve",
    "write_solution",
]

_HOME = {
    "Instance": "elg.instance",
    "Solution": "elg.solution",
    "read": "elg.files",
    "read_solution": "elg.files",
    "write_solution": "elg.files",
    "Result": "elg.solver",
    "SolveConfig": "elg.solver",
    "solve": "elg.solver",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562), so that `import elg` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'elg' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
