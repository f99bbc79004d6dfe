"""Reading and writing files: TSPLIB / CVRPLIB (.tsp .vrp .sol .tour) and CSV.

parse_* take text, format_* return text, read* and write_* open files. A missing file is a FileNotFoundError.
Whatever is wrong with a file is an ElgoError, a ValueError of one line that names the file, the field and the value.
"""

from elgo.problem.files.atomic import append_line, atomic_file, atomic_write, remove_partial_files
from elgo.problem.files.csv import ProblemFile
from elgo.problem.files.instances import ROUTES_SUFFIX, problem_files, read, read_problem, write_instance
from elgo.problem.files.lock import lock_file
from elgo.problem.files.solutions import COST_TABLES, read_solution, write_solution
from elgo.problem.files.text import parse_json, printable
from elgo.problem.files.tsplib import parse_tsplib

__all__ = [
    "COST_TABLES",
    "ROUTES_SUFFIX",
    "ProblemFile",
    "append_line",
    "atomic_file",
    "atomic_write",
    "lock_file",
    "parse_json",
    "parse_tsplib",
    "printable",
    "problem_files",
    "read",
    "read_problem",
    "read_solution",
    "remove_partial_files",
    "write_instance",
    "write_solution",
]
