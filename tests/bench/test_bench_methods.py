"""Methods: their syntax, and that a model's answers are those of `elgo.solve`."""

from collections.abc import Callable
from pathlib import Path

import pytest
import small
from samples import random_policy, small_config

from elgo.bench.baselines import BASELINES, Baseline
from elgo.bench.methods import (
    Method,
    Options,
    check,
    family,
    fingerprint,
    parse_limits,
    parse_method,
    parse_methods,
    run_method,
)
from elgo.problem.instance import Instance
from elgo.problem.task import ProblemName


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("elg", Method("elg", model="elg")),
        ("elg:x8", Method("elg", model="elg")),
        ("elg:single", Method("elg:single", model="elg", starts=1, symmetries=1)),
        ("elg:starts", Method("elg:starts", model="elg", symmetries=1)),
        ("elg:16x2", Method("elg:16x2", model="elg", starts=16, symmetries=2)),
        ("runs/a/best.safetensors", Method("a", model="runs/a/best.safetensors")),
        ("w.safetensors:single", Method("w:single", model="w.safetensors", starts=1, symmetries=1)),
        ("mine=runs@a/w.safetensors", Method("mine", model="runs@a/w.safetensors")),
        ("elgo@5", Method("elgo@5", seconds=5.0)),
        ("elg+search@5", Method("elg+search@5", model="elg", seconds=5.0)),
        ("mine=w.safetensors+search@5", Method("mine+search@5", model="w.safetensors", seconds=5.0)),
        ("pyvrp@5", Method("pyvrp@5", baseline="pyvrp", seconds=5.0)),
        ("hgs@0.50", Method("hgs@0.5", baseline="hgs", seconds=0.5)),
        ("savings", Method("savings", baseline="savings")),
    ],
)
def test_a_method(text: str, method: Method) -> None:
    assert parse_method(text) == method


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pyvrq@5", "--methods has 'pyvrq@5'; there are elg, .*FILE.safetensors, elgo@SECONDS, nearest"),
        ("policy", "--methods has 'policy'; there are elg"),
        ("pyvrp", "'pyvrp', which needs a time limit: write pyvrp@5"),
        ("elgo", "'elgo', which needs a time limit: write elgo@5"),
        ("savings@5", "'savings@5', but savings does not search"),
        ("pyvrp@0", "--methods has '0', which is not a number of seconds"),
        ("elg@5", "'elg@5'; to search from a model's solution, write elg\\+search@5"),
        ("elg:single+search@5", "'elg:single\\+search@5'; to search from a model's solution, write elg\\+search@5"),
        ("elg+search", "'elg\\+search'; to search from a model's solution, write elg\\+search@5"),
        ("elg:double", "'elg:double'; a colon is followed by single, starts, x8 or STARTSxSYMMETRIES"),
        ("elg:0x8", "'elg:0x8'; a colon is followed by"),
        ("elg:", "'elg:'; a colon is followed by"),
    ],
)
def test_a_wrong_method(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_method(text)


def test_baselines_at_every_limit() -> None:
    found = parse_methods("elg", "all", parse_limits("5,1"), ["cvrp"])
    names = [method.name for method in found]
    assert names[:4] == ["elg", "nearest", "insertion", "savings"]
    assert names[4:8] == ["pyvrp@1", "pyvrp@5", "hgs@1", "hgs@5"]
    assert not any(name.startswith(("lkh", "fast_tsp")) for name in names)
    assert [method.name for method in parse_methods("", "fast_tsp", [1.0])] == ["fast_tsp@1"]
    assert [method.name for method in parse_methods("elg:single, elg")] == ["elg:single", "elg"]
    assert {family(method.name) for method in found[4:6]} == {"pyvrp"}
    assert family(parse_method("elg:single").name) == "elg"
    assert family(parse_method("elgo@5").name) == "elgo"
    assert family(parse_method("elg+search@5").name) == "elg+search"


def test_wrong_lists_of_methods() -> None:
    with pytest.raises(ValueError, match="--methods has 'elg' twice"):
        parse_methods("elg,elg:x8")
    with pytest.raises(ValueError, match="there is nothing to run"):
        parse_methods("")
    with pytest.raises(ValueError, match="--baselines has 'gurobi'; there are nearest"):
        parse_methods("elg", "gurobi")
    with pytest.raises(ValueError, match="--baselines has 'pyvrp', which needs a time limit: give --time-limits"):
        parse_methods("elg", "pyvrp")
    with pytest.raises(ValueError, match="--methods has 'pyvrp@fast', but 'fast' is neither a number of seconds"):
        parse_methods("pyvrp@fast")
    with pytest.raises(ValueError, match="'elg:2x1' is neither"):
        parse_methods("pyvrp@elg:2x1,elg:2x1")  # not before it
    assert parse_methods("elg:2x1,pyvrp@elg:2x1")[1].seconds_of == "elg:2x1"
    with pytest.raises(ValueError, match="--time-limits has 'x', which is not a number of seconds"):
        parse_limits("1,x")


@pytest.mark.parametrize("text", ["elgo@0.2", "elg+search@0.5"])
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_search_with_a_time_limit(text: str, problem: str) -> None:
    (answer,) = run_method(parse_method(text), [small.instance(problem)], Options())
    assert answer.solution is not None
    assert answer.error == ""


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_model_in_batches_gives_what_solve_gives(problem: str, weights: Callable[[str], Path]) -> None:
    from elgo.solve.config import SolveConfig
    from elgo.solve.solver import solve

    instances = [small.instance(problem, 14, seed, f"i{seed}") for seed in range(3)]
    method = parse_method(f"{weights(problem)}:5x2")
    answers = run_method(method, instances, Options(seed=3))
    config = SolveConfig(starts=5, symmetries=2, seed=3, threads=1, model=weights(problem), policy_only=True)
    assert [answer.solution.cost for answer in answers if answer.solution] == [
        solve(it, config).cost for it in instances
    ]
    assert all(answer.seconds > 0 for answer in answers)
    other: ProblemName = "cvrp" if problem == "tsp" else "tsp"
    assert not method.supports(other)
    with pytest.raises(ValueError, match=f"cannot solve a {other.upper()}"):
        check([method], [other])


def test_an_exception_in_a_baseline_is_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(it: Instance, budget: object) -> None:
        raise RuntimeError("out of\nluck")

    answers = {
        "broken": (broken, "RuntimeError: out of luck"),
        "nothing": (lambda it, budget: None, "found no feasible solution"),
        "short": (lambda it, budget: [[0, 1]], "infeasible: missing nodes: 2, 3"),
    }
    for name, (solve, error) in answers.items():
        monkeypatch.setitem(BASELINES, name, Baseline(name, ("tsp",), solve, False))
        (answer,) = run_method(Method(name, baseline=name), [small.instance("tsp")], Options())
        assert answer.solution is None
        assert answer.error.startswith(error)


def test_weights_decide_the_fingerprint(weights: Callable[[str], Path]) -> None:
    problems: list[ProblemName] = ["tsp", "cvrp"]
    one, other = (fingerprint(parse_method(str(weights(problem))), [problem]) for problem in problems)
    assert one != other
    assert len(fingerprint(parse_method("elg"), problems)) == 16
    assert fingerprint(parse_method("elgo@1"), problems) == ""
    first, second = (Method("mine", model=random_policy(small_config("tsp"), seed)) for seed in range(2))
    assert fingerprint(first, problems) != fingerprint(second, problems)
    assert fingerprint(first, problems) == fingerprint(Method("x", model=random_policy(small_config("tsp"))), problems)


@pytest.mark.parametrize("seconds", [None, 0.5])
def test_a_policy_itself_is_a_method(seconds: float | None) -> None:
    method = Method(
        "mine", model=random_policy(small_config("tsp"), scale=1.5), starts=5, symmetries=2, seconds=seconds
    )
    check([method], ["cvrp", "tsp"])
    assert not method.supports("cvrp")
    (answer,) = run_method(method, [small.instance("tsp")], Options())
    assert answer.solution is not None
