"""Vehicle routing by an ensemble of a local and a global policy, and by classical search: TSP and CVRP."""

__version__ = "0.2.0"

from elgo.problem.files import read, read_solution, write_solution
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve.solver import (  # `elgo.solve` is this function; its folder is imported by path
    Result,
    SolveConfig,
    solve,
)

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
