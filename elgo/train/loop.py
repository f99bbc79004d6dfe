"""The training loop: one flat function over small parts. Resuming continues it exactly where it stopped.

Data and all randomness follow from the seed and the step number, so weights, optimiser, averaged weights and a handful
of counters are the whole state. With torchrun, each process works on its share of the same global batch and the
gradients are summed: the same step as one process would make.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elgo.decode.decoder import DecodeConfig
from elgo.model.checkpoint import load_policy, model_file, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy, with_local
from elgo.train.config import Config
from elgo.train.data import LabelSource, check_labels, label_source, random_tasks, some_steps, step_rng
from elgo.train.imitate import imitation_loss, make_lesson
from elgo.train.labelling import Labelled
from elgo.train.memory import keep_freed_memory
from elgo.train.processes import Processes
from elgo.train.reinforce import pieces, reinforce_loss, sample_rollouts
from elgo.train.run import Progress, RunFolder, RunLog
from elgo.train.schedule import distribution_probabilities, learning_rate
from elgo.train.validate import Gaps, gaps, validation_set

Report = Callable[[dict[str, Any]], None]
OPTIMISERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


class Trainer:
    """Weights, optimiser and counters of a run, and one step of it."""

    def __init__(self, config: Config, folder: RunFolder, processes: Processes) -> None:
        self.config, self.folder, self.processes = config, folder, processes
        self.decoding = DecodeConfig(threads=torch.get_num_threads())
        self.progress = Progress()
        torch.manual_seed(config.train.seed)
        saved = folder.load()
        named = config.train.init if saved is None else ""
        init = model_file(named, config.policy.problem) if named else None
        first = Policy(config.policy) if init is None else initial_policy(config.policy, init)
        self._adopt(first, joint=config.train.global_steps == 0 and config.policy.local_policy)
        self.source: LabelSource | None = None
        if saved is not None:
            self._restore(saved)

    def _adopt(self, policy: Policy, joint: bool) -> None:
        """Take these parameters, with the local policy switched on or off, and a fresh optimiser."""
        self.policy = with_local(policy, joint).to(self.processes.device).train()
        train = self.config.train
        make = OPTIMISERS[train.optimiser]
        self.optimiser = make(self.policy.parameters(), lr=train.lr, weight_decay=train.weight_decay)
        self.average = {name: value.clone() for name, value in self.policy.state_dict().items()}

    def _restore(self, saved: dict[str, Any]) -> None:
        self.progress = Progress(**saved["progress"])
        self.progress.gaps = tuple(self.progress.gaps)
        self._adopt(self.policy, joint=saved["joint"])
        self.policy.load_state_dict(saved["policy"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.average = {name: value.to(self.processes.device) for name, value in saved["average"].items()}

    def save(self) -> None:
        """Write the checkpoint and, beside it, the weights that `elgo solve --start` and `--model` take."""
        if self.processes.rank != 0:
            return
        state = {
            "progress": asdict(self.progress),
            "joint": self.policy.config.local_policy,
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
        }
        self.folder.save(state)
        self.save_weights("last")

    def save_weights(self, name: str) -> None:
        train, done = self.config.train, self.progress
        story = f"{train.method}, {done.step} steps, {done.seconds / 3600:.2f} hours"
        save_policy(self.folder.path / f"{name}.safetensors", self.averaged(), story)

    def averaged(self) -> Policy:
        """The policy with the averaged weights (without averaging: with the weights)."""
        policy = Policy(self.policy.config).to(self.processes.device).eval()
        policy.load_state_dict(self.average if self.config.train.ema else self.policy.state_dict())
        return policy

    def done(self) -> float:
        """The share of the run that is over."""
        train = self.config.train
        return self.progress.step / train.steps if train.steps else self.progress.seconds / (60 * train.minutes)

    def over(self) -> bool:
        """Whether the run has come to its end."""
        return self.done() >= 1

    def step(self) -> dict[str, float]:
        """One step of the optimiser; its loss, averaged over the global batch, and how many instances that has."""
        train, step = self.config.train, self.progress.step
        if step == train.global_steps and step > 0 and self.config.policy.local_policy:
            self._adopt(self.policy, joint=True)  # the second stage begins, with a fresh optimiser as in the paper
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(train, step, self.done())
        self.optimiser.zero_grad(set_to_none=True)
        loss, count, instances = self._backward(step)
        self.processes.sum_gradients(self.policy, loss, count)
        mean = float(loss / count)
        if not math.isfinite(mean):  # before it reaches the weights, and they the checkpoint
            raise ValueError(f"{self.folder.path}: the loss is {mean} at step {step}; try a lower train.lr")
        for parameter in self.policy.parameters():
            if parameter.grad is not None:
                parameter.grad /= count.to(parameter.device)
        if train.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), train.clip_norm)
        self.optimiser.step()
        self._average(step)
        self.progress.step += 1
        return {"loss": mean, "instances": instances, "lr": self.optimiser.param_groups[0]["lr"]}

    def timed_step(self) -> dict[str, float]:
        """One step, and its row for the log."""
        begin = time.perf_counter()
        made = self.step()
        self.progress.seconds = self.processes.agree(self.progress.seconds + time.perf_counter() - begin)
        done = min(1.0, self.done())
        return {"step": self.progress.step, "seconds": round(self.progress.seconds, 3), **made, "done": done}

    def _backward(self, step: int) -> tuple[Tensor, Tensor, int]:
        """Accumulate this process's gradients of the summed loss; that sum, its divisor, and the batch's size."""
        if self.config.train.method == "imitate":
            return self._imitate(step)
        return self._learn_from_rollouts(step)

    def _imitate(self, step: int) -> tuple[Tensor, Tensor, int]:
        data, device, seed = self.config.data, self.processes.device, self.config.train.seed
        if self.source is None:
            writing = self.processes.rank == 0
            self.source = label_source(self.config, self.folder.path, writing)
        labels = self.source.batch(step)
        rng = step_rng(seed, step, purpose=1)
        lesson = make_lesson(labels, data.starts or labels[0].sample.customers, rng)
        mine = torch.arange(self.processes.rank, len(labels), self.processes.count)
        total, count = torch.zeros((), device=device), torch.zeros((), device=device)
        if len(mine) == 0:
            return total, count, len(labels)
        lesson = lesson.select(mine).to(device)
        steps = some_steps(*lesson.steps, data.states, rng)
        with self._autocast():
            total, count = imitation_loss(self.policy, lesson, steps.to(device))
        total.backward()
        return total.detach(), count.to(device), len(labels)

    def _learn_from_rollouts(self, step: int) -> tuple[Tensor, Tensor, int]:
        config, device = self.config, self.processes.device
        rng = step_rng(config.train.seed, step)
        tasks = random_tasks(config.policy.problem, config.data, self._distribution(step, rng), rng)
        mine, indices = self.processes.share(tasks), self.processes.share(range(len(tasks)))
        rngs = [step_rng(config.train.seed, step, purpose=2 + i) for i in indices]
        rollouts = sample_rollouts(self.policy, mine, config.data.starts, rngs, self.decoding)
        total = torch.zeros((), device=device)
        parts = pieces(mine, rollouts, config.train.chunk, device)
        for begin, (batch, actions) in zip(range(0, len(mine), config.train.chunk), parts, strict=True):
            steps = some_steps(1, actions.shape[2], config.data.states, rngs[begin]).to(device)
            doubtful = None  # needs chunks of one instance
            if config.data.sure < 1:
                doubtful = (torch.from_numpy(rollouts[begin].confidence).to(device) < config.data.sure)[None, :, steps]
            with self._autocast():
                loss = reinforce_loss(self.policy, batch, actions, steps, doubtful)
            if loss.requires_grad:  # not where every move was sure
                loss.backward()
            total += loss.detach()
        return total, torch.tensor(float(len(mine)), device=device), len(tasks)

    def _distribution(self, number: int, rng: Any) -> str:
        """The distribution of a batch's instances: given, or drawn by the last validation's gaps."""
        if self.config.data.distribution != "adaptive":
            given = self.config.data.distribution.split(",")
            return given[number % len(given)]
        names = [name.rsplit("-", 2)[0] for name in self.config.validation.sets]
        latest = self.progress.gaps or (0.0,) * len(names)
        return str(rng.choice(names, p=distribution_probabilities([gap / 100 for gap in latest])))

    def _average(self, step: int) -> None:
        decay = min(self.config.train.ema, (step + 1) / (step + 10))  # early on, a short memory
        for name, value in self.policy.state_dict().items():
            self.average[name].lerp_(value, 1 - decay)

    def _autocast(self) -> Any:
        device = self.processes.device.type
        return torch.autocast(device, torch.bfloat16) if self.config.train.amp else nullcontext()

    def validate(self, sets: dict[str, list[Labelled]]) -> dict[str, float]:
        """Mean gaps on each set; the last one decides which weights are best."""
        policy = self.averaged()
        found = {name: self._mean_gaps(policy, labels) for name, labels in sets.items()}
        self.progress.gaps = tuple(gap.best for gap in found.values())
        last = self.progress.gaps[-1]
        better = last < self.progress.best
        self.progress.best = min(last, self.progress.best)
        if better and self.processes.rank == 0:
            self.save_weights("best")
        rows = {name: gap.best for name, gap in found.items()}
        return rows | {f"{name}/single": gap.single for name, gap in found.items()}

    def _mean_gaps(self, policy: Policy, labels: list[Labelled]) -> Gaps:
        """Each process decodes its share of the labels."""
        found = gaps(policy, self.processes.share(labels), self.config.validation.starts, self.decoding)
        summed = self.processes.sum(torch.tensor(found, dtype=torch.float64).view(-1, 2).sum(0))
        return Gaps(*(summed / len(labels)).tolist())


def initial_policy(config: PolicyConfig, path: Path) -> Policy:
    """The policy in a weights file; ValueError if it is not the network of the config."""
    policy = load_policy(path, config.problem)
    found = replace(policy.config, local_policy=config.local_policy)  # a stage may switch that one
    for name, value in asdict(config).items():
        if getattr(found, name) != value:
            raise ValueError(f"{path}: its policy.{name} is {getattr(found, name)!r}, that of the config is {value!r}")
    return policy


def train(config: Config, path: Path, data: Path, report: Report = print) -> Path:
    """Run (or go on with) the training in folder `path`; validation sets live in folder `data`. Gives the weights.

    `report` is given the row of each step.
    """
    check_labels(config)
    keep_freed_memory()
    processes = Processes()
    with processes.first_alone():
        folder = RunFolder(path, config)
        sets = {name: validation_set(data, config.policy.problem, name) for name in config.validation.sets}
    trainer = Trainer(config, folder, processes)
    logged = trainer.progress.step - bool(trainer.progress.row)  # a row that waits for its validation comes again
    log = RunLog(folder, logged, processes.rank)
    try:
        for row in _rows(trainer, sets):
            log.add(row)
            report(row)
    finally:
        log.close()
        if trainer.source is not None:
            trainer.source.close()
    processes.close()
    return path / ("best.safetensors" if sets else "last.safetensors")


def _rows(trainer: Trainer, sets: dict[str, list[Labelled]]) -> Iterable[dict[str, float]]:
    """The loop itself; yields a row for the log after every step."""
    config, progress = trainer.config, trainer.progress
    pause = 60 * config.train.checkpoint_minutes
    every = config.validation.every
    saved = progress.seconds
    while progress.row or not trainer.over():
        pending = bool(progress.row)  # the last session was stopped while it validated
        row = progress.row if pending else trainer.timed_step()
        due = progress.step % every == 0 if every else progress.seconds - progress.validated > 5 * pause
        if sets and (pending or due or trainer.done() >= 1):
            progress.row = row
            if not pending:
                trainer.save()  # validating may take long
            row = row | trainer.validate(sets)
            progress.row, progress.validated = {}, progress.seconds
        yield row  # into the log before the checkpoint: the log may know more steps than it, never fewer
        if trainer.over() or progress.seconds - saved > pause:
            trainer.save()
            saved = progress.seconds
