"""Peers: each solves a small instance feasibly where it is installed; distances, budgets and missing packages."""

import time

import pytest
import small

from elgo.bench.baselines import PEERS, Budget, Peer
from elgo.problem.instance import Metric
from elgo.problem.solution import Solution

CASES = [(peer.name, problem) for peer in PEERS.values() for problem in peer.problems]


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.EXACT])
@pytest.mark.parametrize(("name", "problem"), CASES)
def test_a_peer_answers_feasibly(name: str, problem: str, metric: Metric) -> None:
    peer = PEERS[name]
    if peer.module:
        pytest.importorskip(peer.module)
    it = small.instance(problem, 14, metric=metric)
    routes = peer.solve(it, Budget(0.6 if peer.limited else None))
    assert routes is not None
    solution = Solution(it, tuple(tuple(route) for route in routes))
    assert solution.violations == ()
    simple = Solution(it, tuple(map(tuple, PEERS["nearest"].solve(it, Budget(None)) or [])))
    assert solution.cost <= 1.3 * simple.cost


def test_a_budget_runs_from_when_it_is_made() -> None:
    budget = Budget(0.05)
    assert 0.01 <= budget.left() <= 0.05
    time.sleep(0.06)
    assert budget.left() == 0.01
    with pytest.raises(ValueError, match="needs a time limit"):
        Budget(None).left()


def test_a_missing_package_says_how_to_install_it() -> None:
    peer = Peer("vroom", ("tsp",), lambda it, budget: None, True, "no_such_module", "pyvroom")
    assert not peer.installed
    with pytest.raises(ValueError, match=r"vroom: the peer needs pyvroom, which cannot be imported .*elgo\[bench\]"):
        peer.require()
