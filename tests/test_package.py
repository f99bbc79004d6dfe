"""The package as a whole: its public names, and what may not be imported early."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import elgo

ROOT = Path(__file__).parent.parent


def run(code: str) -> str:
    """The output of a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_every_public_name_exists() -> None:
    assert all(getattr(elgo, name) is not None for name in elgo.__all__)
    assert set(elgo.__all__) <= set(dir(elgo))


def test_every_public_name_has_a_docstring() -> None:
    """Functions and classes, and the public methods and properties of the classes."""
    missing = []
    for name in set(elgo.__all__) - {"__version__"}:
        found = getattr(elgo, name)
        members = vars(found).items() if inspect.isclass(found) else ()
        parts = {name: found} | {f"{name}.{key}": value for key, value in members if not key.startswith("_")}
        for key, value in parts.items():
            documented = inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, property)
            if documented and not inspect.getdoc(value):
                missing.append(key)
    assert not missing


def test_wrong_input_is_an_elgo_error() -> None:
    """No module raises a plain ValueError, which a caller could not tell from a bug."""
    modules = (ROOT / "elgo").rglob("*.py")
    assert [str(file) for file in modules if "raise ValueError" in file.read_text(encoding="utf-8")] == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numba', 'scipy', 'rich', 'matplotlib'}"
    assert run(f"import elgo, sys; print({heavy} & set(sys.modules))").strip() == "set()"


def test_reading_files_does_not_import_torch() -> None:
    code = "import elgo, sys; elgo.read('examples/clusters-n120.tsp'); print('torch' in sys.modules)"
    assert run(code).strip() == "False"


@pytest.mark.parametrize("warm", [False, True])
def test_a_default_solve_does_not_import_torch(warm: bool) -> None:
    code = f"""
import elgo, sys
from elgo.solve.search import jit_warm_up
jit_warm_up("cvrp")  # so that there is a search
instance = elgo.read("examples/mixed-n116-k13.vrp")
best = elgo.read_solution("examples/mixed-n116-k13.sol", instance)
result = elgo.solve(instance, time_limit=0.5, warm_start=best if {warm} else None)
print(result.cost < 1.1 * best.cost, result.seconds.search > 0, "torch" in sys.modules)
"""
    assert run(code).split() == ["True", "True", "False"]


@pytest.mark.parametrize("before", ["", "elgo.SolveConfig", "from elgo.solve.solver import SolveConfig"])
def test_solve_is_the_function_whatever_was_imported_before(before: str) -> None:
    assert run(f"import elgo\n{before}\nprint(type(elgo.solve).__name__)").strip() == "function"


def test_examples_carry_their_best_known_costs() -> None:
    for name, cost in (("mixed-n116-k13.vrp", 15581), ("clusters-n120.tsp", 6135)):
        instance = elgo.read(ROOT / "examples" / name)
        assert instance.best_known == cost
    solution = elgo.read_solution(
        ROOT / "examples" / "mixed-n116-k13.sol", elgo.read(ROOT / "examples/mixed-n116-k13.vrp")
    )
    assert solution.feasible
    assert solution.cost == 15581
