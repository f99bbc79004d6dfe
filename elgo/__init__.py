"""Solve TSP and CVRP: an ensemble of a local and a global policy, and classical search."""

__version__ = "0.2.0"

import elgo.startup  # noqa: F401 # isort: skip # before anything that takes time to load
from elgo.bulk.many import BulkProgress, BulkResult, solve_many
from elgo.decode.explain import StepScores, explain_step
from elgo.decode.rollouts import rollouts
from elgo.model.checkpoint import Weights, load_model, load_weights
from elgo.problem.errors import ElgoError
from elgo.problem.files import read, read_solution, write_solution
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve.config import SolveConfig
from elgo.solve.plot import plot_history, plot_solution
from elgo.solve.result import CallbackError, Result

# Last: from here on the attribute `elgo.solve` is this function. `from elgo.solve.batch import ...` finds the folder
# of the same name nevertheless, since it is looked up by its path; `import elgo.solve.batch as ...` does not.
from elgo.solve.solver import solve, warm_up
from elgo.solve.stop import MaxIterations, MaxRuntime, NoImprovement, Progress
from elgo.train.tours import log_prob

__all__ = [
    "BulkProgress",
    "BulkResult",
    "CallbackError",
    "ElgoError",
    "Instance",
    "MaxIterations",
    "MaxRuntime",
    "NoImprovement",
    "Progress",
    "Result",
    "Solution",
    "SolveConfig",
    "StepScores",
    "Weights",
    "__version__",
    "explain_step",
    "load_model",
    "load_weights",
    "log_prob",
    "plot_history",
    "plot_solution",
    "read",
    "read_solution",
    "rollouts",
    "solve",
    "solve_many",
    "warm_up",
    "write_solution",
]
