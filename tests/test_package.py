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


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numba', 'scipy', 'rich', 'matplotlib'}"
    assert run(f"import elgo, sys; print({heavy} & set(sys.modules))").strip() == "set()"


def test_reading_files_does_not_import_torch() -> None:
    code = "import elgo, sys; elgo.read('examples/clusters-n120.tsp'); print('torch' in sys.modules)"
    assert run(code).strip() == "False"


def test_a_default_solve_does_not_import_torch() -> None:
    code = """
import contextlib, io, sys
from elgo.cli.main import main
sys.argv = ["elgo", "solve", "examples", "--time-limit", "0.5", "--quiet"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
    main()
print("mean of 2" in out.getvalue(), "torch" in sys.modules)
"""
    assert run(code).split() == ["True", "False"]


def test_a_solve_from_a_warm_start_does_not_import_torch() -> None:
    code = """
import elgo, sys
instance = elgo.read("examples/mixed-n116-k13.vrp")
start = elgo.read_solution("examples/mixed-n116-k13.sol", instance)
print(elgo.solve(instance, time_limit=0.5, warm_start=start).cost, "torch" in sys.modules)
"""
    assert run(code).split() == ["15581.0", "False"]


def test_the_model_needs_torch_alone() -> None:
    """Both policies: logits, log-probabilities with gradients, and a rollout, with the compilers' packages blocked."""
    code = """
import sys
sys.modules.update(numba=None, scipy=None, fast_tsp=None)  # importing them fails
import numpy as np, torch
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.rollout import encode_tasks, rollout
from elgo.problem.task import Task

coords = np.random.default_rng(0).random((12, 2))
for problem in ("tsp", "cvrp"):
    task = Task(coords, None, None) if problem == "tsp" else Task(coords, np.r_[0, np.ones(11, np.int64)], 4)
    policy, starts = Policy(PolicyConfig(problem, layers=1)), np.array([[1, 2, 3]])
    actions, _ = rollout(policy, encode_tasks(policy, [task], 1), starts, None, 1)
    batch = make_batch([task])
    first = policy.env.start(batch, torch.from_numpy(starts))
    print(tuple(policy.logits(policy.encode(batch), first).shape), set(actions[0, 0]) >= set(range(1, 12)))
    policy.log_prob(batch, torch.from_numpy(actions).long()).sum().backward()
    print(all(p.grad is not None and p.grad.isfinite().all() for p in policy.parameters()))
"""
    assert run(code).splitlines() == ["(1, 3, 12) True", "True"] * 2


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
