"""Baselines: each solves a small instance feasibly where it is installed; distances, budgets and missing packages."""

import time

import pytest
import small

from elgo.bench.baselines import BASELINES, Baseline, Budget
from elgo.problem.instance import Metric
from elgo.problem.solution import Solution

CASES = [(baseline.name, problem) for baseline in BASELINES.values() for problem in baseline.problems]


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.EXACT])
@pytest.mark.parametrize(("name", "problem"), CASES)
def test_a_baseline_answers_feasibly(name: str, problem: str, metric: Metric) -> None:
    baseline = BASELINES[name]
    if baseline.module:
        pytest.importorskip(baseline.module)
    it = small.instance(problem, 14, metric=metric)
    routes = baseline.solve(it, Budget(0.6 if baseline.limited else None))
    assert routes is not None
    solution = Solution(it, tuple(tuple(route) for route in routes))
    assert solution.violations == ()
    simple = Solution(it, tuple(map(tuple, BASELINES["nearest"].solve(it, Budget(None)) or [])))
    assert solution.cost <= 1.3 * simple.cost


def test_a_budget_runs_from_when_it_is_made() -> None:
    budget = Budget(0.05)
    assert 0.01 <= budget.left() <= 0.05
    time.sleep(0.06)
    assert budget.left() == 0.01
    with pytest.raises(ValueError, match="needs a time limit"):
        Budget(None).left()


def test_a_missing_package_says_how_to_install_it() -> None:
    baseline = Baseline("vroom", ("tsp",), lambda it, budget: None, True, "no_such_module", "pyvroom")
    assert not baseline.installed
    with pytest.raises(
        ValueError, match=r"vroom: the baseline needs pyvroom, which cannot be imported .*elgo\[bench\]"
    ):
        baseline.require()
