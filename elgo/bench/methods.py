"""Methods that a benchmark measures: how they are written on the command line, and how they solve instances.

elg               a model of the package, as the paper measures: every start (100 above 1,000 nodes), 8 symmetries
elg:single        one greedy rollout
elg:starts        every start, no symmetries
elg:16x2          16 starts, 2 symmetries
FILE.safetensors  a weights file, with the same protocols; LABEL=FILE.safetensors names the method
elgo@5            the classical search with 5 seconds: `elgo solve --time-limit 5`
elg+search@5      the search from a model's solution: `elgo solve --start elg --time-limit 5`
pyvrp@5, savings  a baseline, with seconds if it searches until a time limit
elgo@elg          the search (or a baseline) with the time that the method elg took on the same instance
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
from typing import NamedTuple

import numpy as np

from elgo.bench.baselines import BASELINES, Budget
from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import augmentations, best_solution, start_count
from elgo.model.checkpoint import Model, Weights, as_policy, model_file, model_names, read_weights
from elgo.problem.errors import ElgoError
from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.problem.task import ProblemName
from elgo.solve.search import jit_warm_up
from elgo.solve.solver import solve

PROTOCOLS: dict[str, tuple[int | None, int]] = {"single": (1, 1), "starts": (None, 1), "x8": (None, 8)}
SEARCH = "elgo"  # the method that is `elgo solve`
_COUNTS = re.compile(r"([1-9]\d*)x([1-8])")
_TIMED = re.compile(r"(.+)@([^@/]*)")


@dataclass(frozen=True)
class Method:
    """A way to solve instances: a baseline; a model; with a time limit the search, from the model's solution if any."""

    name: str
    baseline: str | None = None  # a name in BASELINES
    model: str | Model | None = None  # the name of a model, FILE.safetensors, or a policy itself
    starts: int | None = None  # None: every node, 100 nodes of a large instance
    symmetries: int = 8
    seconds: float | None = None  # time limit
    seconds_of: str | None = None  # instead: the method whose time on an instance is the limit

    @property
    def decodes(self) -> bool:
        """Whether the method is a model alone, which solves several instances at once."""
        return self.model is not None and not self.limited

    @property
    def limited(self) -> bool:
        """Whether the method searches until a time limit."""
        return self.seconds is not None or self.seconds_of is not None

    def supports(self, problem: ProblemName) -> bool:
        """Return whether the method can solve this problem."""
        if self.baseline:
            return problem in BASELINES[self.baseline].problems
        if isinstance(self.model, str):
            return not _is_file(self.model) or _problem_of(self.model) == problem
        return self.model is None or self.model.config.problem == problem


class Options(NamedTuple):
    """Settings that all methods share."""

    seed: int = 0
    threads: int = 1
    memory_gb: float = 4.0
    device: str = "auto"  # of models


class Answer(NamedTuple):
    """What a method returned for an instance: a feasible solution, or None and the error.

    seconds: its share of the call; latency: of the whole call, which may have solved several instances.
    """

    solution: Solution | None
    error: str
    seconds: float
    latency: float
    starts: int = 0  # of a model's rollouts
    symmetries: int = 0


def family(name: str) -> str:
    """Return a method's name without time limit and protocol: pyvrp for pyvrp@1 and pyvrp@5, elg for elg:single."""
    return re.split("[:@]", name)[0]


def time_limit(name: str) -> float | None:
    """Return the time limit in a method's name, in seconds."""
    timed = re.search(r"@([\d.]+)$", name)
    return float(timed[1]) if timed else None


def _is_file(model: str) -> bool:
    return model.endswith(".safetensors")


@cache
def _problem_of(file: str) -> str:
    return read_weights(Path(file)).config.problem


# --- syntax ----------------------------------------------------------------------------------------------------------


def parse_methods(
    methods: str, baselines: str = "", limits: Sequence[float] = (), problems: Iterable[ProblemName] = ("tsp", "cvrp")
) -> list[Method]:
    """Return the comma-separated methods, then the baselines (`all`, `installed` or names) at each time limit."""
    found = [parse_method(text.strip()) for text in methods.split(",") if text.strip()]
    names = [name.strip() for name in baselines.split(",") if name.strip()]
    if baselines in ("all", "installed"):
        able = [baseline for baseline in BASELINES.values() if set(problems) & set(baseline.problems)]
        names = [baseline.name for baseline in able if baselines == "all" or baseline.installed]
    for name in names:
        if name not in BASELINES:
            raise ElgoError(f"--baselines has {name!r}; there are {', '.join(BASELINES)}, or all, or installed")
        if BASELINES[name].limited and not limits:
            raise ElgoError(f"--baselines has {name!r}, which needs a time limit: give --time-limits 1,5")
        texts = [f"{name}@{seconds:g}" for seconds in sorted(limits)] if BASELINES[name].limited else [name]
        found += map(parse_method, texts)
    if not found:
        raise ElgoError(f"--methods is {methods!r} and --baselines is {baselines!r}: there is nothing to run")
    names = [method.name for method in found]
    for position, method in enumerate(found):
        if names.count(method.name) > 1:
            raise ElgoError(f"--methods has {method.name!r} twice; LABEL=FILE.safetensors gives a method another name")
        if method.seconds_of is not None and method.seconds_of not in names[:position]:
            what = f"{method.seconds_of!r} is neither a number of seconds above 0 nor a method before it"
            raise ElgoError(f"--methods has {method.name!r}, but {what}")
    return found


def parse_limits(text: str) -> list[float]:
    """Return the seconds in a comma-separated text."""
    return [_parse_seconds("--time-limits", part) for part in text.split(",") if part.strip()]


def _parse_seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise ElgoError(f"{option} has {text.strip()!r}, which is not a number of seconds above 0")
    return seconds


def parse_method(text: str) -> Method:
    """Return the method that a text describes, see the top of this module."""
    timed = _TIMED.fullmatch(text)
    solver, limit = (timed[1], timed[2]) if timed else (text, "")
    seconds_of = limit if re.match("[A-Za-z]", limit) else None
    seconds = _parse_seconds("--methods", limit) if timed and seconds_of is None else None
    at_seconds = f"@{seconds_of}" if seconds_of else "" if seconds is None else f"@{seconds:g}"
    if solver == SEARCH or solver in BASELINES:
        limited = solver == SEARCH or BASELINES[solver].limited
        if limited and not timed:
            raise ElgoError(f"--methods has {text!r}, which needs a time limit: write {solver}@5 for 5 seconds")
        if timed and not limited:
            raise ElgoError(f"--methods has {text!r}, but {solver} does not search: it takes no time limit")
        baseline = None if solver == SEARCH else solver
        return Method(solver + at_seconds, baseline, seconds=seconds, seconds_of=seconds_of)
    rollouts = solver.removesuffix("+search")
    before, colon, protocol = rollouts.rpartition(":")
    if not colon or _is_file(protocol):
        before, protocol = rollouts, "x8"
    label, _, model = before.rpartition("=")
    if not _is_file(model) and before not in model_names():
        known = [*model_names(), "FILE.safetensors", "elgo@SECONDS", *BASELINES]
        raise ElgoError(f"--methods has {text!r}; there are {', '.join(known)}")
    name = label or _label(Path(model))
    if solver != rollouts and timed and protocol == "x8":
        return Method(f"{name}+search{at_seconds}", model=model, seconds=seconds, seconds_of=seconds_of)
    if solver != rollouts or timed:
        raise ElgoError(f"--methods has {text!r}; to search from a model's solution, write {before}+search@5")
    counts = _COUNTS.fullmatch(protocol)
    if not counts and protocol not in PROTOCOLS:
        raise ElgoError(f"--methods has {text!r}; a colon is followed by {', '.join(PROTOCOLS)} or STARTSxSYMMETRIES")
    starts, symmetries = (int(counts[1]), int(counts[2])) if counts else PROTOCOLS[protocol]
    return Method(name + ("" if protocol == "x8" else f":{protocol}"), None, model, starts, symmetries)


def _label(model: Path) -> str:
    """Return the name of a model or weights file, or that of its run's folder if the file is called best or last."""
    return model.parent.name if model.stem in ("best", "last") and model.parent.name else model.stem


# --- checks before a run ---------------------------------------------------------------------------------------------


def fingerprint(method: Method, problems: Iterable[ProblemName]) -> str:
    """Return a hash of the method's weights; empty if it has none."""
    if method.model is None:
        return ""
    if isinstance(method.model, str):
        files = {model_file(method.model, problem) for problem in problems}
        parts = [file.read_bytes() for file in sorted(files)]
    else:
        parts = [repr(method.model.config).encode()]
        if isinstance(method.model, Weights):
            parts += [value.tobytes() for value in method.model.tensors.values()]
        else:
            parts += [value.cpu().numpy().tobytes() for value in method.model.state_dict().values()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def check(methods: Sequence[Method], problems: Iterable[ProblemName], device: str = "auto") -> None:
    """Raise ElgoError for a method that solves none of the problems, or that misses its package, weights or device."""
    for method in methods:
        if method.baseline:
            BASELINES[method.baseline].require()
        supported = [problem for problem in problems if method.supports(problem)]
        if not supported:
            raise ElgoError(f"{method.name}: cannot solve a {' or '.join(sorted(problems)).upper()}")
        if method.model is not None:
            for problem in supported:
                as_policy(method.model, problem, device)


def warm_up_methods(methods: Sequence[Method], problems: Iterable[ProblemName], options: Options) -> None:
    """Load and compile everything on a small instance, so that this is not part of a method's time."""
    for method in methods:
        for problem in (problem for problem in problems if method.supports(problem)):
            if method.baseline or method.model is not None:
                seconds = 0.05 if method.baseline and method.limited else None
                small = as_instance(generate(np.random.default_rng(0), problem, 12, "uniform"))
                brief = replace(method, seconds=seconds, seconds_of=None, starts=1, symmetries=1)
                run_method(brief, [small], options)
            if not method.baseline and method.limited:
                jit_warm_up(problem)


# --- solving ---------------------------------------------------------------------------------------------------------


def run_method(method: Method, instances: Sequence[Instance], options: Options) -> list[Answer]:
    """Return the method's answers for instances of one problem; those decoded in one batch share its time evenly."""
    if not method.decodes:
        return [_solve(method, instance, options) for instance in instances]
    begin = time.perf_counter()
    solutions = _decode(method, instances, options)
    latency = time.perf_counter() - begin
    counts = [(start_count(instance.customers, method.starts), method.symmetries) for instance in instances]
    share = latency / len(instances)
    return [_checked(x, share, latency, *own) for x, own in zip(solutions, counts, strict=True)]


def _decode(method: Method, instances: Sequence[Instance], options: Options) -> list[Solution]:
    """Return what `elgo.solve` returns with policy_only, many instances in one call of the decoder."""
    assert method.model is not None
    policy = as_policy(method.model, instances[0].problem, options.device)
    how = policy.config.normalisation
    plans = [augmentations(instance, how, method.starts, method.symmetries, options.seed) for instance in instances]
    tasks = [task for own, _ in plans for task in own]
    starts = [nodes for _, own in plans for nodes in own]
    config = DecodeConfig(threads=options.threads, memory_gb=options.memory_gb)
    rollouts = (own.actions for own in decode(policy, tasks, starts, config))
    return [best_solution(x, list(islice(rollouts, len(own)))) for x, (own, _) in zip(instances, plans, strict=True)]


def _solve(method: Method, instance: Instance, options: Options) -> Answer:
    """Return the answer of the search or a baseline; an exception in a baseline becomes its error."""
    begin = time.perf_counter()
    if method.baseline is None:
        shared = options if method.model is not None else options._replace(device="auto")  # which no search takes
        result = solve(instance, time_limit=method.seconds, start=method.model, **shared._asdict())
        seconds = time.perf_counter() - begin
        return _checked(result.solution, seconds, seconds, result.starts, result.symmetries)
    try:
        routes = BASELINES[method.baseline].solve(instance, Budget(method.seconds, options.threads, options.seed))
        seconds = time.perf_counter() - begin
        if routes is None:
            return Answer(None, "found no feasible solution", seconds, seconds)
        return _checked(Solution(instance, tuple(tuple(route) for route in routes)), seconds, seconds)
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        seconds = time.perf_counter() - begin
        return Answer(None, f"{type(error).__name__}: {reason[:200]}", seconds, seconds)


def _checked(solution: Solution, seconds: float, latency: float, starts: int = 0, symmetries: int = 0) -> Answer:
    violations = solution.violations
    error = f"infeasible: {violations[0]}" if violations else ""
    return Answer(None if violations else solution, error, seconds, latency, starts, symmetries)
