"""Reading and writing files: TSPLIB / CVRPLIB (.tsp .vrp .sol .tour) and CSV.

parse_* take text, format_* return text, read* and write_* open files. Whatever is wrong with a file is reported as a
ValueError of one line that names the file, the field and the value.
"""

from elgo.problem.files.atomic import atomic_file, atomic_write, remove_partial_files
from elgo.problem.files.best_known import COST_TABLES
from elgo.problem.files.csv import format_csv, parse_csv
from elgo.problem.files.instances import read, write_instance
from elgo.problem.files.solutions import format_sol, format_tour, parse_sol, parse_tour, read_solution, write_solution
from elgo.problem.files.tsplib import format_tsplib, parse_tsplib

__all__ = [
    "COST_TABLES",
    "atomic_file",
    "atomic_write",
    "format_csv",
    "format_sol",
    "format_tour",
    "format_tsplib",
    "parse_csv",
    "parse_sol",
    "parse_tour",
    "parse_tsplib",
    "read",
    "read_solution",
    "remove_partial_files",
    "write_instance",
    "write_solution",
]
