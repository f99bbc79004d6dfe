"""Solving and benchmarks without torch, and on systems that lack what only Linux has."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import elgo
from elgo.problem.files import write_instance
from elgo.problem.instance import Instance, Metric

ROOT = Path(__file__).parents[1]
BLOCKED = """
import os, signal, sys
for name in {modules}:
    sys.modules[name] = None  # importing it raises ImportError
for module, name in ((os, "sched_getaffinity"), (os, "getppid"), (signal, "SIGUSR1")):
    if {portable} and hasattr(module, name):
        delattr(module, name)
"""
NO_TORCH = BLOCKED.format(modules=("torch",), portable=False)
NOT_LINUX = BLOCKED.format(modules=("torch", "fcntl", "resource"), portable=True)


def run(code: str, *arguments: object, before: str = NO_TORCH) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter in which some modules cannot be imported."""
    command = [sys.executable, "-c", before + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def command(*arguments: object, before: str = NO_TORCH) -> subprocess.CompletedProcess[str]:
    """Run `elgo` so."""
    return run("from elgo.cli.main import main; main()", *arguments, before=before)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small TSP and a small CVRP."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    points = rng.integers(0, 1000, (30, 2)).astype(float)
    demand = np.concatenate([[0], rng.integers(1, 10, 29)])
    write_instance(folder / "a.tsp", Instance("a", points, Metric.EUC_2D))
    write_instance(folder / "b.vrp", Instance("b", points, Metric.EUC_2D, demand=demand, capacity=40))
    return folder


@pytest.mark.parametrize("before", [NO_TORCH, NOT_LINUX], ids=["no torch", "not Linux"])
@pytest.mark.parametrize(
    ("options", "source"),
    [(("--policy-only",), "policy"), (("--start", "elg", "--time-limit", "1"), ""), (("--time-limit", "1"), "search")],
    ids=["policy only", "start", "search"],
)
def test_solving(options: tuple[str, ...], source: str, before: str, files: Path) -> None:
    done = command("solve", files / "a.tsp", files / "b.vrp", *options, "--quiet", before=before)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows[:2]] == ["a", "b"]
    assert all(row[-1] == source for row in rows[:2]) or not source


@pytest.mark.parametrize("before", [NO_TORCH, NOT_LINUX], ids=["no torch", "not Linux"])
def test_a_benchmark(before: str, files: Path, tmp_path: Path) -> None:
    methods = "elg:single,elg:4x2,elgo@0.2,elg+search@0.2,savings"
    done = command("bench", files, "--methods", methods, "--folder", tmp_path / "out", "--quiet", before=before)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out" / "results.csv").read_text().splitlines()) == 1 + 9  # savings solve only the CVRP


def test_models_are_verified() -> None:
    done = command("models", "--verify")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library(files: Path) -> None:
    """Everything public but load_model and log_prob."""
    code = """
import elgo
instance = elgo.read(sys.argv[1])
model = elgo.load_weights("elg", "tsp")
tours, costs = elgo.rollouts(model, instance, [3])
results = [elgo.solve(instance, policy_only=True, model=each, starts=2) for each in ("elg", model)]
assert results[0].cost == results[1].cost
assert elgo.solve(instance, start=model, time_limit=0.5).starts > 0
step = elgo.explain_step(model, instance, tours[0, :5].tolist())
assert step.probability.argmax() == tours[0, 5]
elgo.warm_up()
for name in elgo.__all__:
    assert getattr(elgo, name) is not None
for work in (lambda: elgo.load_model("elg-tsp"), lambda: elgo.log_prob("elg", instance, tours)):
    try:
        work()
    except ModuleNotFoundError as error:
        print(error)
"""
    done = run(code, files / "a.tsp")
    assert done.returncode == 0, done.stderr
    expected = [f"{name} needs torch: pip install 'elgo[train]'" for name in ("load_model", "log_prob")]
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "paper-tsp", "--folder", "none"),
        ("bench", "ablations"),
        ("solve", "examples", "--policy-only", "--device", "cuda"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_needs_torch_says_so_in_one_line(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("elgo: ")
    assert line.endswith("needs torch: pip install 'elgo[train]'")


def test_names_and_files_are_loaded_without_torch(files: Path) -> None:
    """Even where it is installed: its import takes seconds."""
    code = "import elgo; elgo.solve(elgo.read(sys.argv[1]), policy_only=True, starts=1); print('torch' in sys.modules)"
    assert run(code, files / "a.tsp", before="import sys\n").stdout.strip() == "False"


def test_a_wrong_model_is_never_ignored() -> None:
    instance = elgo.read(ROOT / "examples" / "clusters-n120.tsp")
    for model in ("/nope", "/nope.safetensors"):
        for options in ({"start": model, "time_limit": 0.5}, {"policy_only": True, "model": model}, {"model": model}):
            with pytest.raises(ValueError, match="nope"):
                elgo.solve(instance, **options)
