"""Training speed: (a) the official training step, written straightforwardly, and (b) ours; and imitation beside them.

    python benchmarks/train.py [--size 100] [--batch 8] [--problems tsp cvrp] [--threads 1] [--rounds 3] [--json FILE]

A step of REINFORCE in the joint stage on uniform instances, one rollout from each of their N nodes (CVRP: customers),
the paper's network with random weights:

(a) samples node by node with autograd through all steps. Each step is benchmarks/baseline.py's, which says what it
    does; the gradient then goes back through all of them at once.
(b) is elgo.train: rollouts from the decoder without gradients, the gradient of all their moves from one kernel.

Both have the same loss and end with Adam's step, (a) torch's default and (b) its fused one.

Imitation is a step of `elgo train elg-*` on the same instances: as many of them as make --nodes nodes, 4 sequences of
each solution. The solution is a trivial one here: the work is the same. It is timed (c) with log-probabilities from
torch, as on a GPU, and Adam as in (a), and (d) as it is on a CPU, in parts: the encoder and the log-probabilities,
forward and backward, and all else of the step.

Steps of the optimisers alone, for all parameters of that network, are timed beside them: AdamW, our Muon with its AdamW
for small parameters, and torch.optim.Muon, which takes large matrices alone. benchmarks/operations.py counts what a GPU
would be given.

Each runs in a process of its own, so that peak memory is its own, and takes the best of --repeat steps (imitation: of
ten times as many, for each part) after a first one that is not counted; all four in turn, --rounds times. Seconds are
CPU time per thread: what the clock shows when nothing else is running.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import baseline
import numpy as np
import torch
from decode import blas_kernels, in_child, peak_memory, say
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor

from elgo.decode.blas import one_blas_thread
from elgo.decode.decoder import DecodeConfig
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.problem.generate import generate
from elgo.problem.task import ProblemName, Task
from elgo.train.config import ReinforceConfig
from elgo.train.imitate import imitation_moves, make_imitation_batch
from elgo.train.labelling import Labelled, label
from elgo.train.log_prob import compiled_sum, torch_sum
from elgo.train.optimiser import Muon
from elgo.train.processes import keep_freed_memory
from elgo.train.reinforce import advantages, reinforce_loss, sampled_parts

SEED = 0
SEQUENCES = 4  # per solution in imitation


@dataclass(frozen=True)
class Case:
    """What to time."""

    problem: ProblemName
    size: int  # N: nodes of a TSP, customers of a CVRP
    batch: int
    nodes: int  # of a step of imitation
    threads: int
    repeat: int


@dataclass(frozen=True)
class Timed:
    """The measurement of a child process."""

    seconds: float  # of the best step
    instances: int  # in it
    memory: int  # peak of the process in bytes, libraries included
    libraries: int  # the part of it before the first step
    parts: tuple[float, ...] = ()  # seconds of encoder, log-probabilities and all else in a step of imitation

    @property
    def pace(self) -> float:
        return self.instances / self.seconds

    @property
    def parts_ms(self) -> list[float]:
        """Milliseconds per instance of the parts, and of all but the encoder."""
        return [1e3 * x / self.instances for x in (*self.parts, sum(self.parts[1:]))]


@dataclass(frozen=True)
class Row:
    """The measurements of one problem."""

    problem: ProblemName
    baseline: Timed
    ours: Timed
    imitation: Timed
    imitation_in_torch: Timed
    optimisers: dict[str, float]  # milliseconds of a step

    @property
    def ratio(self) -> float:
        return self.ours.pace / self.baseline.pace


# --- what is measured ------------------------------------------------------------------------------------------------


def make_policy(problem: ProblemName) -> Policy:
    torch.manual_seed(SEED)
    return Policy(PolicyConfig(problem)).train()


def make_samples(problem: ProblemName, size: int, count: int) -> list[Task]:
    rng = np.random.default_rng(SEED)
    return [generate(rng, problem, size, "uniform") for _ in range(count)]


def make_tasks(case: Case) -> list[Task]:
    return [Task(x.coords, x.demand, x.capacity) for x in make_samples(case.problem, case.size, case.batch)]


def trivial_label(sample: Task) -> Labelled:
    """Return a trivial solution: nodes in order, a new route when the next customer does not fit."""
    if sample.demand is None:
        return label(sample, [range(sample.size)])
    routes: list[list[int]] = [[]]
    for node in range(1, sample.size):
        if sample.demand[[*routes[-1], node]].sum() > (sample.capacity or 0):
            routes.append([])
        routes[-1].append(node)
    return label(sample, routes)


def sampled_with_gradients(policy: Policy, tasks: Sequence[Task]) -> tuple[Tensor, Tensor]:
    """Return rollouts (B, M, T) from every node and log-probabilities (B, M), with autograd through all steps."""
    batch = make_batch(tasks)
    n = batch.coords.shape[1]
    first = torch.arange(policy.env.has_depot, n).expand(len(tasks), -1)
    assert policy.global_ is not None
    encoded = baseline.encode(policy.global_, batch, first)
    walk = baseline.begin(batch, first)
    chosen_p = []
    while not baseline.finished(walk):
        p = baseline.probabilities(policy, encoded, walk)
        node = p.detach().flatten(0, 1).multinomial(1).view(first.shape)
        chosen_p.append(p.gather(2, node[:, :, None]).squeeze(2))
        baseline.move(walk, node)
    return walk.chosen, torch.stack(chosen_p, dim=2).log().sum(-1)


def baseline_step(policy: Policy, optimiser: torch.optim.Optimizer, tasks: Sequence[Task]) -> None:
    actions, log_p = sampled_with_gradients(policy, tasks)
    weight = advantages(policy.env.length(make_batch(tasks), actions))
    optimiser.zero_grad(set_to_none=True)
    (-(weight * log_p).mean()).backward()
    optimiser.step()


def our_step(policy: Policy, optimiser: torch.optim.Optimizer, tasks: Sequence[Task], threads: int) -> None:
    rngs = [np.random.default_rng([SEED, i]) for i in range(len(tasks))]
    optimiser.zero_grad(set_to_none=True)
    batch, config = make_batch(tasks), DecodeConfig(threads=threads)
    for part, encoding in sampled_parts(policy, tasks, batch, ReinforceConfig(), rngs, config):
        (reinforce_loss(policy, *part, encoding) / len(tasks)).backward()
    optimiser.step()


def imitation_step(
    policy: Policy, optimiser: torch.optim.Optimizer, labels: Sequence[Labelled], plain: bool
) -> list[float]:
    """Make a step of imitation; return the CPU time of the encoder, of the log-probabilities and of all else."""
    clock = [time.process_time()]
    labelled = make_imitation_batch(labels, SEQUENCES, np.random.default_rng(SEED))
    moves = imitation_moves(labelled, torch.arange(1, labelled.actions.shape[2]))
    clock.append(time.process_time())
    encoding = policy.encode(labelled.batch)
    clock.append(time.process_time())
    made = {name: x for name, x in encoding._asdict().items() if isinstance(x, Tensor)}
    given = encoding._replace(**{name: x.detach().requires_grad_() for name, x in made.items()})
    optimiser.zero_grad(set_to_none=True)
    loss = (torch_sum if plain else compiled_sum)(policy, given, moves)
    (loss / -moves.weight.sum()).backward()
    clock.append(time.process_time())
    torch.autograd.backward(list(made.values()), [getattr(given, name).grad for name in made])
    clock.append(time.process_time())
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimiser.step()
    clock.append(time.process_time())
    batch, forward, log_prob, backward, update = np.diff(clock).tolist()
    return [forward + backward, log_prob, batch + update]


def cpu_seconds(work: Callable[[], None]) -> float:
    """Return the CPU time of the work, over all threads."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def best(
    case: Case, policy: Policy, instances: int, step: Callable[[torch.optim.Optimizer], None], plain: bool = False
) -> Timed:
    """Time the best of --repeat steps, after one that loads or compiles kernels and creates the optimiser's state."""
    torch.set_num_threads(case.threads)
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-4, weight_decay=1e-6, fused=None if plain else True)
    libraries = peak_memory()
    with one_blas_thread():  # as elgo train does
        step(optimiser)
        seconds = min(cpu_seconds(lambda: step(optimiser)) for _ in range(case.repeat)) / case.threads
    return Timed(seconds, instances, peak_memory(), libraries)


def time_baseline(case: Case) -> Timed:
    baseline.use_plain_torch()
    policy, tasks = make_policy(case.problem), make_tasks(case)
    return best(case, policy, case.batch, lambda optimiser: baseline_step(policy, optimiser, tasks), plain=True)


def time_ours(case: Case) -> Timed:
    keep_freed_memory()  # as elgo train does
    policy, tasks = make_policy(case.problem), make_tasks(case)
    return best(case, policy, case.batch, lambda optimiser: our_step(policy, optimiser, tasks, case.threads))


def time_imitation(case: Case, plain: bool) -> Timed:
    """Time the best of each part of a step."""
    if plain:
        baseline.use_plain_torch()
    keep_freed_memory()
    policy, count = make_policy(case.problem), max(1, case.nodes // case.size)
    labels = [trivial_label(sample) for sample in make_samples(case.problem, case.size, count)]
    parts: list[list[float]] = []

    def step(optimiser: torch.optim.Optimizer) -> None:
        parts.append(imitation_step(policy, optimiser, labels, plain))

    timed = best(replace(case, repeat=10 * case.repeat), policy, count, step, plain)
    fewest = (np.min(parts[1:], axis=0) / case.threads).tolist()
    return replace(timed, seconds=sum(fewest), parts=tuple(fewest))


def time_optimisers(case: Case) -> dict[str, float]:
    """Return the milliseconds of the best step of each optimiser."""
    torch.set_num_threads(case.threads)
    keep_freed_memory()
    parameters = list(make_policy(case.problem).parameters())
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    muon = Muon(parameters, lr=1e-3, adamw_lr=1e-3, weight_decay=0.0)
    steps = {"AdamW": torch.optim.AdamW(parameters, lr=1e-3, fused=True).step, "Muon": muon.step}
    if muon.matrices and hasattr(torch.optim, "Muon"):
        steps["torch.optim.Muon"] = torch.optim.Muon(muon.matrices, lr=1e-3).step
    seconds = {name: min(cpu_seconds(step) for _ in range(10 * case.repeat)) for name, step in steps.items()}
    return {name: 1e3 * best / case.threads for name, best in seconds.items()}


# --- the run ---------------------------------------------------------------------------------------------------------


def measure(case: Case, rounds: int) -> Row:
    """Time all four in turn, several times, so that a slow minute affects them alike; keep the best of each."""
    runs: dict[str, tuple[Callable[..., Timed], *tuple[object, ...]]] = {
        "official step": (time_baseline, case),
        "ours": (time_ours, case),
        "imitation": (time_imitation, case, False),
        "imitation in torch": (time_imitation, case, True),
    }
    timed: dict[str, list[Timed]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found = in_child(*run)
            timed[name].append(found)
            say(f"{case.problem}: {name} {found.pace:.2f} instances/s, {found.memory / 1e6:.0f} MB")
    optimisers = in_child(time_optimisers, case)
    return Row(case.problem, *(max(found, key=lambda one: one.pace) for found in timed.values()), optimisers)


def show(rows: Sequence[Row], case: Case) -> None:
    """Print the tables and how to read them."""
    console = Console(width=max(110, Console().width))
    table = new_table("(a) inst/s", "(b) inst/s", "b / a", "(a) MB", "(b) MB", "b / a")
    for row in rows:
        memory = row.baseline.memory / 1e6, row.ours.memory / 1e6
        pace = f"{row.baseline.pace:.2f}", f"{row.ours.pace:.2f}", f"{row.ratio:.1f}"
        table.add_row(row.problem, *pace, f"{memory[0]:.0f}", f"{memory[1]:.0f}", f"{memory[1] / memory[0]:.2f}")
    console.print(table)
    table = new_table("", "inst/s", "encoder ms", "log p ms", "else ms", "all but encoder ms")
    for row in rows:
        for name, timed in (("(c)", row.imitation_in_torch), ("(d)", row.imitation)):
            table.add_row(row.problem, name, f"{timed.pace:.1f}", *(f"{ms:.2f}" for ms in timed.parts_ms))
    console.print(table)
    table = new_table(*(f"{name} ms" for name in rows[0].optimisers))
    for row in rows:
        table.add_row(row.problem, *(f"{ms:.1f}" for ms in row.optimisers.values()))
    console.print(table)
    console.print(
        f"REINFORCE: (a) official step, (b) ours: N={case.size}, {case.batch} instances x N rollouts per step.\n"
        f"Imitation: (c) with torch alone, (d) ours: {max(1, case.nodes // case.size)} instances x "
        f"{SEQUENCES} sequences per step, ms per instance.\n"
        f"{case.threads} thread(s) each, CPU time, the best step counts. MB: peak of the whole process, of which "
        f"{max(row.ours.libraries for row in rows) / 1e6:.0f} are libraries and weights.\n{blas_kernels()}",
        highlight=False,
    )


def new_table(*headers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("problem")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training speed against the official training step.")
    parser.add_argument("--size", type=int, default=100, metavar="N")
    parser.add_argument("--batch", type=int, default=8, help="instances per step of REINFORCE; default 8")
    parser.add_argument("--nodes", type=int, default=800, help="nodes per step of imitation; default 800")
    parser.add_argument("--problems", nargs="+", choices=["tsp", "cvrp"], default=["tsp", "cvrp"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="steps of each, the best counts; default 3")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each, in turn, the best counts; default 3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    options = parser.parse_args(arguments)
    for name, least in (("size", 3), ("batch", 1), ("nodes", 1), ("threads", 1), ("repeat", 1), ("rounds", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} is {getattr(options, name)}, must be at least {least}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if os.getloadavg()[0] > 1:
        say(f"the machine is busy (load {os.getloadavg()[0]:.1f}): expect slow and uneven figures")
    common = (options.size, options.batch, options.nodes, options.threads, options.repeat)
    rows = [measure(Case(problem, *common), options.rounds) for problem in options.problems]
    show(rows, Case("tsp", *common))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
