"""Rows: their syntax, and that a policy's row is what `elgo.solve` gives."""

from collections.abc import Callable
from pathlib import Path

import pytest
import small

from elgo.bench.baselines import PEERS, Peer
from elgo.bench.methods import Options, Row, check, fingerprint, parse_limits, parse_row, parse_rows, run_row
from elgo.problem.instance import Instance


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("policy", Row("policy")),
        ("policy:x8", Row("policy")),
        ("policy:single", Row("policy:single", starts=1, symmetries=1)),
        ("policy:starts", Row("policy:starts", symmetries=1)),
        ("policy:16x2", Row("policy:16x2", starts=16, symmetries=2)),
        ("runs/a/best.safetensors", Row("a", weights=Path("runs/a/best.safetensors"))),
        ("w.safetensors:single", Row("w:single", weights=Path("w.safetensors"), starts=1, symmetries=1)),
        ("mine=runs/a/w.safetensors", Row("mine", weights=Path("runs/a/w.safetensors"))),
        ("pyvrp@5", Row("pyvrp@5", peer="pyvrp", seconds=5.0)),
        ("hgs@0.50", Row("hgs@0.5", peer="hgs", seconds=0.5)),
        ("savings", Row("savings", peer="savings")),
    ],
)
def test_a_row(text: str, row: Row) -> None:
    assert parse_row(text) == row


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pyvrq@5", "--rows has 'pyvrq@5'; there are policy, FILE.safetensors, nearest"),
        ("pyvrp", "'pyvrp', which searches as long as it is told: write pyvrp@5"),
        ("savings@5", "'savings@5', but savings does not search"),
        ("pyvrp@fast", "--rows has 'fast', which is no number of seconds"),
        ("pyvrp@0", "--rows has '0', which is no number of seconds"),
        ("policy:single@5", "'policy:single@5': with a time limit, the rollouts are as many as fit into it"),
        ("policy:double", "'policy:double'; behind the colon stands single, starts, x8 or STARTSxSYMMETRIES"),
        ("policy:0x8", "'policy:0x8'; behind the colon"),
    ],
)
def test_a_wrong_row(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_row(text)


def test_peers_at_every_limit() -> None:
    found = parse_rows("policy", "all", parse_limits("5,1"), ["cvrp"])
    names = [row.name for row in found]
    assert names[:4] == ["policy", "nearest", "insertion", "savings"]
    assert names[4:8] == ["pyvrp@1", "pyvrp@5", "hgs@1", "hgs@5"]
    assert not any(name.startswith(("lkh", "fast_tsp")) for name in names)
    assert [row.name for row in parse_rows("", "fast_tsp", [1.0])] == ["fast_tsp@1"]
    assert [row.name for row in parse_rows("policy:single, policy")] == ["policy:single", "policy"]
    assert {row.family for row in found[4:6]} == {"pyvrp"}
    assert parse_row("policy:single").family == "policy"


def test_wrong_lists_of_rows() -> None:
    with pytest.raises(ValueError, match="--rows has 'policy' twice"):
        parse_rows("policy,policy:x8")
    with pytest.raises(ValueError, match="there is nothing to run"):
        parse_rows("")
    with pytest.raises(ValueError, match="--peers has 'gurobi'; there are nearest"):
        parse_rows("policy", "gurobi")
    with pytest.raises(
        ValueError, match="--peers has 'pyvrp', which searches as long as it is told: give --time-limits"
    ):
        parse_rows("policy", "pyvrp")
    with pytest.raises(ValueError, match="--time-limits has 'x', which is no number of seconds"):
        parse_limits("1,x")


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_policy_in_batches_gives_what_solve_gives(problem: str, weights: Callable[[str], Path]) -> None:
    from elgo.solve.solver import SolveConfig, solve

    instances = [small.instance(problem, 14, seed, f"i{seed}") for seed in range(3)]
    row = parse_row(f"{weights(problem)}:5x2")
    answers = run_row(row, instances, Options(seed=3))
    config = SolveConfig(starts=5, symmetries=2, seed=3, threads=1, weights=weights(problem), policy_only=True)
    assert [answer.solution.cost for answer in answers if answer.solution] == [
        solve(it, config).cost for it in instances
    ]
    assert all(answer.seconds > 0 for answer in answers)
    other = "cvrp" if problem == "tsp" else "tsp"
    assert not row.takes(other)
    with pytest.raises(ValueError, match=f"the weights cannot solve a {other.upper()}"):
        check([row], [other])


def test_what_goes_wrong_in_a_peer_is_its_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(it: Instance, budget: object) -> None:
        raise RuntimeError("out of\nluck")

    answers = {
        "broken": (broken, "RuntimeError: out of luck"),
        "nothing": (lambda it, budget: None, "found no feasible solution"),
        "short": (lambda it, budget: [[0, 1]], "infeasible: missing nodes: 2, 3"),
    }
    for name, (solve, fault) in answers.items():
        monkeypatch.setitem(PEERS, name, Peer(name, ("tsp",), solve, False))  # type: ignore[arg-type]
        (answer,) = run_row(Row(name, peer=name), [small.instance("tsp")], Options())
        assert answer.solution is None
        assert answer.fault.startswith(fault)


def test_weights_decide_the_fingerprint(weights: Callable[[str], Path]) -> None:
    one, other = (fingerprint(parse_row(str(weights(problem))), []) for problem in ("tsp", "cvrp"))
    assert one != other
    assert len(fingerprint(parse_row("policy"), ["tsp"])) == 16
