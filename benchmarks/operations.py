"""Operations of a training step: how many a GPU would be given, which is what bounds small networks on one.

    python benchmarks/operations.py [--size 100] [--batch 8] [--problems tsp cvrp]

The second step of `elgo train paper-tsp` and `paper-cvrp` in the joint stage, random weights, one rollout from every
node (CVRP: customer), by torch alone, as on a GPU: the compiled kernels are switched off, rollouts are sampled by the
device's generator, the gradient takes all instances at once (12 GB of memory), Adam updates all parameters together.
The profiler of torch counts `aten::` events that no other `aten::` event contains, views included. A CVRP rollout takes
up to 2 N moves, so its count differs from batch to batch. Nothing here has run on a GPU: the counts are made on a CPU.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from elgo.decode.decoder import DecodeConfig
from elgo.problem.task import ProblemName
from elgo.train import log_prob, reinforce
from elgo.train.config import Config, load_config
from elgo.train.loop import Trainer
from elgo.train.processes import Processes
from elgo.train.run import RunFolder

LIMIT = 20_000  # operations of a step at batch 8 and N = 100
GPU_MEMORY = 12 * 2.0**30  # for gradients: half of a 24 GB card
PHASES = ("sampling", "loss", "backward", "optimiser")  # the last one is all the rest of the step


def load(problem: ProblemName, size: int, batch: int) -> Config:
    """Return the paper's config in the joint stage."""
    sets = [f"data.sizes={size}", f"data.batch={batch}", "train.global_steps=0", "validation.sets=[]"]
    return load_config(f"paper-{problem}", sets)


def in_phase(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function under a name that the profiler records."""

    def call(*arguments: Any, **options: Any) -> Any:
        with record_function(name):
            return function(*arguments, **options)

    return call


def as_on_a_gpu(trainer: Trainer) -> ExitStack:
    """Return a context in which the trainer's step runs by torch alone, in named phases."""
    assert isinstance(trainer.method, reinforce.Reinforce)
    trainer.method.decoding = DecodeConfig(path="torch", threads=torch.get_num_threads())
    for group in trainer.optimiser.param_groups:
        group["foreach"] = True  # the default on a GPU
    stack = ExitStack()
    stack.enter_context(patch.object(log_prob, "fits", lambda policy, encoding: False))
    stack.enter_context(patch.object(reinforce, "gradient_memory", lambda device: GPU_MEMORY))
    for owner, name, phase in (
        (reinforce, "sample_rollouts", "sampling"),
        (reinforce, "reinforce_loss", "loss"),
        (torch.Tensor, "backward", "backward"),
    ):
        stack.enter_context(patch.object(owner, name, in_phase(phase, getattr(owner, name))))
    return stack


def phase_of(event: FunctionEvent) -> str | None:
    """Return the phase of an operation; None if it is part of another one."""
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith("aten::"):
            return None
        if parent.name in PHASES:
            return str(parent.name)
        parent = parent.cpu_parent
    return PHASES[-1]


def count_operations(config: Config) -> Counter[str]:
    """Return the number of operations of a training step by phase."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, RunFolder(Path(folder) / "run", config), Processes())
    with as_on_a_gpu(trainer), torch.backends.mkldnn.flags(enabled=False):
        trainer.step()  # creates the state of the optimiser
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            trainer.step()
    events = [event for event in profiler.events() if event.name.startswith("aten::")]
    return Counter(phase for event in events if (phase := phase_of(event)) is not None)


def show(counts: dict[ProblemName, Counter[str]], size: int, batch: int) -> None:
    """Print a table with a column for each problem."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("phase")
    for problem in counts:
        table.add_column(problem, justify="right")
    for phase in PHASES:
        table.add_row(phase, *(f"{own[phase]:,}" for own in counts.values()))
    table.add_row("all", *(f"{own.total():,}" for own in counts.values()))
    console = Console(width=max(110, Console().width))
    console.print(table)
    console.print(f"Operations of a training step: {batch} instances of N = {size}, N rollouts each. Not run on a GPU.")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Operations of a training step, as a GPU would be given them.")
    parser.add_argument("--size", type=int, default=100, metavar="N")
    parser.add_argument("--batch", type=int, default=8, help="instances; default 8")
    parser.add_argument("--problems", nargs="+", choices=["tsp", "cvrp"], default=["tsp", "cvrp"])
    options = parser.parse_args(arguments)
    counts = {name: count_operations(load(name, options.size, options.batch)) for name in options.problems}
    show(counts, options.size, options.batch)


if __name__ == "__main__":
    main()
