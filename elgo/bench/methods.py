"""Rows of a benchmark: text -> Row, and a Row on instances -> Answers.

policy            the shipped weights: every start (fewer on large instances), 8 symmetries: the paper's protocol
policy:single     one greedy rollout
policy:starts     every start, no symmetries
policy:16x2       16 starts, 2 symmetries
policy@5          the policy and search in 5 seconds: what `elgo solve --time-limit 5` does
FILE.safetensors  a weights file, in the same ways; LABEL=FILE.safetensors names the row
pyvrp@5           a peer with a time limit in seconds; peers that do not search take none: savings
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from elgo.bench.baselines import PEERS, Budget, Peer
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution

if TYPE_CHECKING:
    from elgo.model.ensemble import Policy

PROTOCOLS: dict[str, tuple[int | None, int]] = {"single": (1, 1), "starts": (None, 1), "x8": (None, 8)}
_COUNTS = re.compile(r"(\d+)x([1-8])")
_SECONDS = re.compile(r"(.+)@([^@]*)")


@dataclass(frozen=True)
class Row:
    """One way to solve instances.

    A peer has a name of PEERS in `peer`; otherwise it is a policy: `weights` (None: the shipped ones), starts
    (None: as `solve` chooses them) and symmetries. With `seconds`, it searches.
    """

    name: str
    peer: str | None = None
    seconds: float | None = None
    weights: Path | None = None
    starts: int | None = None
    symmetries: int = 8

    @property
    def family(self) -> str:
        """Rows of one family differ in what they spend: pyvrp@1 and pyvrp@5, policy:single and policy."""
        if self.seconds is None:
            return self.name if self.peer else self.name.rsplit(":", 1)[0]
        return self.name.rsplit("@", 1)[0] + ("" if self.peer else " and search")

    def takes(self, problem: str) -> bool:
        """Whether the row can solve this problem at all."""
        if self.peer:
            return problem in PEERS[self.peer].problems
        return self.weights is None or load_weights(self.weights).config.problem == problem


class Options(NamedTuple):
    """The same for all rows."""

    seed: int = 0
    threads: int = 1
    memory_gb: float = 4.0


class Answer(NamedTuple):
    """What a row made of one instance; a fault instead of a solution where it failed."""

    solution: Solution | None
    fault: str
    seconds: float


def parse_rows(
    rows: str, peers: str = "", limits: Sequence[float] = (), problems: Iterable[str] = ("tsp", "cvrp")
) -> list[Row]:
    """Rows by a comma-separated text; then peers (`all`, `installed` or names), those that search at each limit."""
    found = [parse_row(text.strip()) for text in rows.split(",") if text.strip()]
    for peer in _peers(peers, set(problems)):
        if peer.limited and not limits:
            raise ValueError(f"--peers has {peer.name!r}, which searches as long as it is told: give --time-limits 1,5")
        for seconds in sorted(limits) if peer.limited else [None]:
            found.append(parse_row(peer.name if seconds is None else f"{peer.name}@{seconds:g}"))
    if not found:
        raise ValueError(f"--rows is {rows!r} and --peers is {peers!r}: there is nothing to run")
    names = [row.name for row in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--rows has {name!r} twice; LABEL=FILE.safetensors gives a row a name of its own")
    return found


def _peers(text: str, problems: set[str]) -> list[Peer]:
    able = [peer for peer in PEERS.values() if problems & set(peer.problems)]
    if text == "all":
        return able
    if text == "installed":
        return [peer for peer in able if peer.installed]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            raise ValueError(f"--peers has {name!r}; there are {', '.join(PEERS)}, or all, or installed")
    return [PEERS[name] for name in names]


def parse_limits(text: str) -> list[float]:
    """ "1,5,20" -> seconds."""
    return [_limit("--time-limits", part) for part in text.split(",") if part.strip()]


def _limit(place: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise ValueError(f"{place} has {text.strip()!r}, which is no number of seconds above 0")
    return seconds


def parse_row(text: str) -> Row:
    """One row, see the top of this module."""
    timed = _SECONDS.fullmatch(text)
    solver, seconds = (timed[1], _limit("--rows", timed[2])) if timed else (text, None)
    if solver in PEERS:
        return _peer_row(text, PEERS[solver], seconds)
    solver, starts, symmetries, suffix = _protocol(solver)
    label, equals, file = solver.rpartition("=")
    if file.endswith(".safetensors"):
        path = Path(file)
        row = Row(label if equals else _label(path), weights=path)
    elif solver == "policy":
        row = Row("policy")
    else:
        raise ValueError(f"--rows has {text!r}; there are policy, FILE.safetensors, {', '.join(PEERS)}")
    if seconds is not None:
        if suffix:
            raise ValueError(f"--rows has {text!r}: with a time limit, the rollouts are as many as fit into it")
        return replace(row, name=f"{row.name}@{seconds:g}", seconds=seconds)
    return replace(row, name=row.name + suffix, starts=starts, symmetries=symmetries)


def _peer_row(text: str, peer: Peer, seconds: float | None) -> Row:
    if peer.limited and seconds is None:
        raise ValueError(
            f"--rows has {text!r}, which searches as long as it is told: write {peer.name}@5 for 5 seconds"
        )
    if not peer.limited and seconds is not None:
        raise ValueError(f"--rows has {text!r}, but {peer.name} does not search: it takes no time limit")
    return Row(peer.name if seconds is None else f"{peer.name}@{seconds:g}", peer=peer.name, seconds=seconds)


def _protocol(text: str) -> tuple[str, int | None, int, str]:
    """Cut a protocol off the end: what is before it, starts, symmetries, and what it adds to the row's name."""
    before, colon, last = text.rpartition(":")
    if colon and last in PROTOCOLS:
        starts, symmetries = PROTOCOLS[last]
        return before, starts, symmetries, "" if last == "x8" else f":{last}"
    counts = _COUNTS.fullmatch(last)
    if colon and counts and int(counts[1]) > 0:
        return before, int(counts[1]), int(counts[2]), f":{last}"
    if colon and before in ("policy", *PEERS):
        raise ValueError(f"--rows has {text!r}; behind the colon stands {', '.join(PROTOCOLS)} or STARTSxSYMMETRIES")
    return text, None, 8, ""


def _label(path: Path) -> str:
    """The name of a weights file; that of its run's folder if it is called best or last."""
    return path.parent.name if path.stem in ("best", "last") and path.parent.name else path.stem


@cache
def load_weights(path: Path) -> Policy:
    """Weights are read once; ValueError if the file is none."""
    from elgo.model.checkpoint import load_policy

    return load_policy(path)


def _policy(row: Row, problem: str) -> Policy:
    from elgo.model.checkpoint import load_model

    return load_model(row.weights or "elg", "tsp" if problem == "tsp" else "cvrp")


def fingerprint(row: Row, problems: Iterable[str]) -> str:
    """What decides the row's answers beside its name: the content of its weights."""
    from elgo.model.checkpoint import model_file

    if row.peer:
        return ""
    files = (
        [row.weights] if row.weights else [model_file("elg", "tsp" if p == "tsp" else "cvrp") for p in sorted(problems)]
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def check(rows: Sequence[Row], problems: Iterable[str]) -> None:
    """Raise ValueError for a row whose package or weights are missing, or that is for other problems than these."""
    for row in rows:
        if row.peer:
            PEERS[row.peer].require()
        elif row.weights:
            load_weights(row.weights)
        if not any(row.takes(problem) for problem in problems):
            kind = "weights" if row.weights else "peer"
            raise ValueError(f"{row.name}: the {kind} cannot solve a {' or '.join(sorted(problems)).upper()}")


def warm_up(rows: Sequence[Row], problems: Iterable[str], options: Options) -> None:
    """Load and compile everything on a small instance, so that no row is timed while it does."""
    for row in rows:
        searches = row.seconds is not None
        quick = replace(row, seconds=0.05 if row.peer and searches else None, starts=1, symmetries=1)
        for problem in problems:
            if not row.takes(problem):
                continue
            run_row(quick, [_small(problem)], options)
            if searches and not row.peer:
                from elgo.search.jit_warm_up import jit_warm_up

                jit_warm_up(problem)


def _small(problem: str) -> Instance:
    """Twelve nodes on a bent line."""
    from elgo.problem.instance import Metric

    coords = [(i, i * i % 7) for i in range(12)]
    if problem == "tsp":
        return Instance("small", coords, Metric.EXACT)  # type: ignore[arg-type]
    return Instance("small", coords, Metric.EXACT, demand=[0] + [1] * 11, capacity=4)  # type: ignore[arg-type]


def run_row(row: Row, instances: Sequence[Instance], options: Options) -> list[Answer]:
    """The row's answers for instances of one problem. Of a batch, each takes its even share of the time."""
    if row.peer:
        return [_ask(PEERS[row.peer], row, instance, options) for instance in instances]
    if row.seconds is not None:
        return [_search(row, instance, options) for instance in instances]
    begin = time.perf_counter()
    solutions = _decode(row, instances, options)
    share = (time.perf_counter() - begin) / len(instances)
    return [_checked(solution, share) for solution in solutions]


def effort(row: Row, instance: Instance) -> float:
    """How long a row takes for an instance, compared to others: a policy's moves, N^2 of a peer."""
    if row.seconds is not None:
        return 1.0
    n = instance.customers
    if row.peer:
        return float(n**2)
    return float(n * row.symmetries * (row.starts or n))


def _decode(row: Row, instances: Sequence[Instance], options: Options) -> list[Solution]:
    """As `elgo.solve.solver.solve`, but many instances in one call of the decoder."""
    from elgo.decode.multistart import augmentations, best_solution
    from elgo.decode.rollout import DecodeConfig, decode

    seed, threads, memory = options
    policy = _policy(row, instances[0].problem)
    plans = [augmentations(instance, row.starts, row.symmetries, seed) for instance in instances]
    tasks = [task for own, _ in plans for task in own]
    starts = [nodes for _, own in plans for nodes in own]
    rollouts = decode(policy, tasks, starts, DecodeConfig(threads=threads, memory_gb=memory))
    each = iter(rollouts)
    return [best_solution(x, list(islice(each, len(own)))) for x, (own, _) in zip(instances, plans, strict=True)]


def _search(row: Row, instance: Instance, options: Options) -> Answer:
    """The whole solver in the row's time."""
    from elgo.solve.solver import SolveConfig, solve

    seed, threads, memory = options
    config = SolveConfig(row.seconds, seed=seed, threads=threads, weights=row.weights, memory_gb=memory)
    begin = time.perf_counter()
    solution = solve(instance, config).solution
    return _checked(solution, time.perf_counter() - begin)


def _ask(peer: Peer, row: Row, instance: Instance, options: Options) -> Answer:
    """A peer's answer to one instance. Whatever goes wrong in it is its fault, not the end of the benchmark."""
    budget = Budget(row.seconds, options.threads, options.seed)
    try:
        routes = peer.solve(instance, budget)
        spent = time.perf_counter() - budget.begin
        if routes is None:
            return Answer(None, "found no feasible solution", spent)
        return _checked(Solution(instance, tuple(tuple(route) for route in routes)), spent)
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        return Answer(None, f"{type(error).__name__}: {reason[:200]}", time.perf_counter() - budget.begin)


def _checked(solution: Solution, seconds: float) -> Answer:
    """The answer if our checker finds nothing wrong with it."""
    if solution.violations:
        return Answer(None, f"infeasible: {solution.violations[0]}", seconds)
    return Answer(solution, "", seconds)
