"""The training loop. A resumed run continues exactly where it stopped.

Data and all randomness follow from the seed and the step number, so weights, optimiser, averaged weights and a few
counters are the whole state. With torchrun, each process works on its share of the same global batch and gradients are
summed: the step is the same as that of one process.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from elgo.decode.blas import one_blas_thread
from elgo.decode.decoder import DecodeConfig
from elgo.model.checkpoint import load_policy, model_file, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy, with_local
from elgo.model.global_policy import GlobalPolicy
from elgo.model.protocols import MakeGlobalPolicy
from elgo.problem.errors import ElgoError
from elgo.train.config import Config, ImitationConfig, TrainConfig
from elgo.train.data import check_labels
from elgo.train.imitate import Imitation
from elgo.train.interrupts import Interrupts
from elgo.train.labelling import Labelled, require
from elgo.train.optimiser import make_optimiser
from elgo.train.processes import Processes, keep_freed_memory
from elgo.train.reinforce import Reinforce
from elgo.train.run import RunFolder, RunLog, RunState, must_fit
from elgo.train.validate import ValidationGaps, instance_gaps, require_solvers, validation_set

Row = dict[str, float]


class Trainer:
    """Weights, optimiser and counters of a run, and one step of it."""

    def __init__(
        self, config: Config, folder: RunFolder, processes: Processes, global_policy: MakeGlobalPolicy = GlobalPolicy
    ) -> None:
        self.config, self.folder, self.processes = config, folder, processes
        self.interrupts = Interrupts()
        self.state = RunState()
        options = config.method
        self.method: Imitation | Reinforce
        if isinstance(options, ImitationConfig):
            self.method = Imitation(config, options, folder.path / "labels", processes)
        else:
            self.method = Reinforce(config, options, processes)
        torch.manual_seed(config.train.seed)
        saved = folder.load()
        init = config.train.init if saved is None else ""
        made = initial_policy(config.policy, init, global_policy) if init else Policy(config.policy, global_policy)
        self._adopt(made, joint=config.train.global_steps == 0 and config.policy.local_policy)
        if saved is not None:
            with must_fit(folder.checkpoint):
                self._restore(saved)

    def _adopt(self, policy: Policy, joint: bool) -> None:
        """Take these parameters, with the local policy switched on if `joint`, and a new optimiser."""
        self.policy = with_local(policy, joint).to(self.processes.device).train()
        self.optimiser = make_optimiser(self.config.train, self.policy.parameters())
        self.rates = [group["lr"] for group in self.optimiser.param_groups]  # the highest
        self.average = {name: value.clone() for name, value in self.policy.state_dict().items()}

    def _restore(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.state = RunState(**saved["state"])
        self._adopt(self.policy, joint=saved["joint"])
        self.policy.load_state_dict(saved["policy"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.average = {name: value.to(self.processes.device) for name, value in saved["average"].items()}

    def save(self) -> None:
        """Write the checkpoint and, beside it, the weights that `elgo solve --start` and `--model` take."""
        if self.processes.rank != 0:
            return
        saved = {
            "state": asdict(self.state),
            "joint": self.policy.config.local_policy,
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
        }
        self.folder.save(saved)
        self.save_weights("last")

    def save_weights(self, name: str) -> None:
        """Write the averaged weights as NAME.safetensors."""
        state = self.state
        summary = f"{self.config.method_name}, {state.step} steps, {state.seconds / 3600:.2f} hours"
        summary += f", {state.cpu_seconds / 3600:.2f} core-hours"
        if state.branch_step:
            summary += f"; cooled from step {state.branch_step}, {state.branch_cpu_seconds / 3600:.2f} core-hours"
        save_policy(self.folder.path / f"{name}.safetensors", self.averaged(), summary)

    def averaged(self) -> Policy:
        """Return the policy with the averaged weights, or with the weights if they are not averaged."""
        policy = copy.deepcopy(self.policy).eval()
        policy.load_state_dict(self.average if self.config.train.ema else self.policy.state_dict())
        return policy

    def fraction_done(self) -> float:
        """Return the fraction of the run's steps or minutes that is over; 0 if it has no end."""
        train, state = self.config.train, self.state
        if train.steps:
            return (state.step - state.branch_step) / train.steps
        return (state.seconds - state.branch_seconds) / (60 * train.minutes) if train.minutes else 0.0

    def step(self) -> Row:
        """Make one step of the optimiser; return loss, number of instances and learning rate."""
        train, step = self.config.train, self.state.step
        if step == train.global_steps and step > 0 and self.config.policy.local_policy:
            self._begin_second_stage()
        factor = rate_factor(train, step, self.fraction_done())
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.policy.zero_grad()
        total, divisor, instances = self.method.backward(self.policy, self.state)
        self.processes.sum_gradients(self.policy, total, divisor)
        loss = float(total / divisor)
        if not math.isfinite(loss):  # before it spoils the weights
            raise ElgoError(f"{self.folder.path}: the loss is {loss} at step {step}; try a lower train.lr")
        torch._foreach_div_([p.grad for p in self.policy.parameters() if p.grad is not None], divisor)
        if train.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), train.clip_norm)
        self.interrupts.hold()
        self.optimiser.step()
        self._update_average()
        self.state.step += 1
        return {"loss": loss, "instances": instances, "lr": train.lr * factor}

    def _begin_second_stage(self) -> None:
        """Switch the local policy on, with a new optimiser as in the paper, and forget the best weights without it."""
        self._adopt(self.policy, joint=True)
        self.state.best = math.inf
        if self.processes.rank == 0:
            (self.folder.path / "best.safetensors").unlink(missing_ok=True)

    def _update_average(self) -> None:
        step = self.state.step
        decay = min(self.config.train.ema, (step + 1) / (step + 10))  # a short memory at first
        torch._foreach_lerp_(list(self.average.values()), list(self.policy.state_dict().values()), 1 - decay)

    def timed_step(self) -> Row:
        """Make one step; return its row for the log, which the state keeps until it is logged.

        An interrupt comes before anything has changed, or when everything has.
        """
        state, begin, begin_cpu = self.state, time.perf_counter(), time.process_time()
        try:
            made = self.step()
            used = torch.tensor(time.process_time() - begin_cpu, dtype=torch.float64)
            state.cpu_seconds += float(self.processes.sum(used))
            state.seconds = self.processes.agree(state.seconds + time.perf_counter() - begin)
            clocks = {"seconds": round(state.seconds, 3), "cpu_seconds": round(state.cpu_seconds, 3)}
            state.row = {"step": state.step, **clocks, **made, "done": min(1.0, self.fraction_done())}
        finally:
            self.interrupts.release()
        return state.row

    def validate(self, sets: dict[str, list[Labelled]]) -> Row:
        """Return the mean gaps on each set; keep the weights if that on `best_on` is the best of the stage so far."""
        policy = self.averaged()
        found = {name: self._mean_gaps(policy, labels) for name, labels in sets.items()}
        self.state.gaps = tuple(gaps.best for gaps in found.values())
        deciding = found[self.config.validation.best_on or next(iter(found))].best
        if deciding < self.state.best:
            self.state.best = deciding
            if self.processes.rank == 0:
                self.save_weights("best")
        row = {name: gaps.best for name, gaps in found.items()}
        return row | {f"{name}/single": gaps.single for name, gaps in found.items()}

    def _mean_gaps(self, policy: Policy, labels: list[Labelled]) -> ValidationGaps:
        """Return the mean gaps on one set, of which each process decodes its share."""
        decoding = DecodeConfig(threads=torch.get_num_threads())
        found = instance_gaps(policy, self.processes.share(labels), self.config.validation.starts, decoding)
        summed = self.processes.sum(torch.tensor(found, dtype=torch.float64).view(-1, 2).sum(0))
        return ValidationGaps(*(summed / len(labels)).tolist())


def rate_factor(config: TrainConfig, step: int, done: float) -> float:
    """Return the learning rate at a step over the highest one, given the fraction of the run that is over."""
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    return warm if config.schedule == "constant" else warm * max(0.0, 1.0 - done)


def initial_policy(config: PolicyConfig, name: str, global_policy: MakeGlobalPolicy = GlobalPolicy) -> Policy:
    """Return a model of the package by name, or that of a file; ElgoError if its network is not that of the config."""
    path = model_file(name, config.problem)
    policy = load_policy(path, config.problem, global_policy)
    found = replace(policy.config, local_policy=config.local_policy)  # a stage may switch that one
    for field, value in asdict(config).items():
        if getattr(found, field) != value:
            raise ElgoError(f"{path}: policy.{field} is {getattr(found, field)!r}, in the config it is {value!r}")
    return policy


def train(
    config: Config,
    path: Path,
    data: Path,
    on_row: Callable[[Row], None] = lambda row: None,
    on_message: Callable[[str], None] = lambda line: None,
    global_policy: MakeGlobalPolicy = GlobalPolicy,
    device: str = "auto",
) -> Path:
    """Start or continue the run in folder `path`, with validation sets in folder `data`; return the weights file.

    `on_row` gets the row of each step, `on_message` lines about the labelling of validation sets; `global_policy` makes
    the global policy of the ensemble, if it is not the paper's. `device` is cpu, cuda, cuda:NUMBER or auto, a GPU if
    there is one. Ctrl-C saves the run, which can be continued, and raises KeyboardInterrupt.
    """
    check_labels(config)
    _check_packages(config, data)
    keep_freed_memory()
    processes = Processes(device)
    with ExitStack() as stack:
        stack.enter_context(one_blas_thread())  # once: each step would set the limit again
        with processes.first_alone():
            folder = RunFolder(path, config)
            if processes.rank == 0:
                stack.enter_context(folder.lock())
            problem, names = config.policy.problem, config.validation.sets
            sets = {name: validation_set(data, problem, name, on_message) for name in names}
        trainer = Trainer(config, folder, processes, global_policy)
        stack.enter_context(trainer.interrupts.installed())
        stack.callback(trainer.method.close)
        logged = trainer.state.step - bool(trainer.state.row)  # a row that was not logged comes again
        log = stack.enter_context(closing(RunLog(folder, logged, processes.rank)))
        try:
            for row in _rows(trainer, sets):
                log.add(row)
                on_row(row)
        except KeyboardInterrupt:
            trainer.save()
            on_message(f"saved after step {trainer.state.step}; the same command continues the run")
            raise
    processes.close()
    return path / ("best.safetensors" if sets else "last.safetensors")


def _check_packages(config: Config, data: Path) -> None:
    """Raise ImportError now if a package is missing that training needs later."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise ImportError("training needs tensorboard, which is not installed: pip install 'elgo[train]'") from None
    require_solvers(data, config.policy.problem, config.validation.sets)
    if isinstance(config.method, ImitationConfig) and not config.method.labels and config.policy.problem == "tsp":
        require("fast_tsp")


def _rows(trainer: Trainer, sets: dict[str, list[Labelled]]) -> Iterator[Row]:
    """Step until the run is over, validate and save when due; yield a row for the log after every step."""
    config, state = trainer.config, trainer.state
    pause = 60 * config.train.checkpoint_minutes
    every = config.validation.every
    saved = state.seconds
    while state.row or trainer.fraction_done() < 1:
        interrupted = bool(state.row)  # the last session was stopped before the row was logged
        row = state.row if interrupted else trainer.timed_step()
        due = state.step % every == 0 if every else state.seconds - state.validated > 5 * pause
        if sets and (due or trainer.fraction_done() >= 1):
            if not interrupted:
                trainer.save()  # validation may take long
            row = row | trainer.validate(sets)
            state.validated = state.seconds
        yield row  # logged before the checkpoint is written: the log may hold more steps than it, never fewer
        state.row = {}
        if trainer.fraction_done() >= 1 or state.seconds - saved > pause:
            trainer.save()
            saved = state.seconds
