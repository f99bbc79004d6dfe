"""The folder of a run: config, versions, log, checkpoint. Files are written atomically or appended by line."""

import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch

from elgo import __version__
from elgo.model.torch_file import read_torch_file
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_file, atomic_write, lock_file, parse_json, remove_partial_files
from elgo.problem.files.text import read_text
from elgo.train.config import Config, make_config, to_json


@dataclass
class RunState:
    """What changes during a run besides weights and optimiser."""

    step: int = 0
    seconds: float = 0.0  # of training, over all sessions of the run
    cpu_seconds: float = 0.0  # of all training threads in the same time; labels and validation do not count
    branch_step: int = 0  # where the branch that is cooled down left its run
    branch_seconds: float = 0.0
    branch_cpu_seconds: float = 0.0
    labels: tuple[int, ...] = ()  # how many of each label store are in use; the stores may grow meanwhile
    best: float = float("inf")  # validation gap of the best weights
    gaps: tuple[float, ...] = ()  # percent, of the last validation; for the adaptive scheduler
    validated: float = 0.0  # seconds when the last validation ended
    row: dict[str, float] = field(default_factory=dict)  # of a step that is not validated yet


class RunFolder:
    """The folder of a new run, or of an earlier session to continue."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.checkpoint = path, path / "checkpoint.pt"
        stored = path / "config.json"
        if stored.exists():
            if _fixed_fields(read_stored_config(stored)) != _fixed_fields(config):
                raise ElgoError(f"{stored}: the run was started with another config; name a new folder for a new run")
        else:
            path.mkdir(parents=True, exist_ok=True)
            atomic_write(path / "versions.json", json.dumps(versions(), indent=2))
            atomic_write(stored, to_json(config))

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint atomically: a kill leaves the old one or the new one."""
        with atomic_file(self.checkpoint) as file:
            torch.save(state, file)

    def load(self) -> dict[str, Any] | None:
        """Return the last checkpoint, or None in a new run."""
        if not self.checkpoint.exists():
            return None
        loaded = read_torch_file(self.checkpoint)
        if not isinstance(loaded, dict):
            raise ElgoError(f"{self.checkpoint}: not the checkpoint of a run")
        return loaded

    def lock(self) -> IO[str]:
        """Return a file that is open as long as this process trains here; ElgoError if another one does."""
        file = open(self.path / "lock", "a")  # noqa: SIM115
        if not lock_file(file):
            file.close()
            raise ElgoError(f"{self.path}: another process is training in this folder")
        return file

    def cut_log(self, step: int) -> None:
        """Remove what was logged after a step: the run continues from there."""
        kept = [row for row in read_log(self.path) if row["step"] <= step]
        atomic_write(self.path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in kept))


class RunLog:
    """Writes the rows of a run to log.jsonl and to TensorBoard; only the first process writes."""

    def __init__(self, folder: RunFolder, step: int, rank: int) -> None:
        """Continue after `step`: later rows of an earlier session, whose steps were lost, are removed."""
        self.writing = rank == 0
        if not self.writing:
            return
        from torch.utils.tensorboard import SummaryWriter

        remove_partial_files(folder.path)  # of an earlier session that was killed
        folder.cut_log(step)
        self.board = SummaryWriter(folder.path / "tensorboard", purge_step=step + 1)
        self.file = open(folder.path / "log.jsonl", "a")  # noqa: SIM115

    def add(self, row: dict[str, Any]) -> None:
        if not self.writing:
            return
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        for name, value in row.items():
            self.board.add_scalar(name, value, row["step"])

    def close(self) -> None:
        if self.writing:
            self.file.close()
            self.board.close()


@contextmanager
def must_fit(checkpoint: Path) -> Iterator[None]:
    """Turn errors that the content of a checkpoint leads to within the block into an ElgoError."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ElgoError(f"{checkpoint}: does not fit the config of the run ({reason:.200})") from None


def read_stored_config(path: Path) -> Config:
    """Return the config in the folder of a run; ElgoError if the file is damaged."""
    try:
        return make_config(parse_json(read_text(path, (".json",))))
    except (AttributeError, TypeError, ValueError) as error:
        raise ElgoError(f"{path}: not the config of a run ({error})") from None


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run's log; a line that is damaged, or cut short by a kill, is skipped."""
    file = path / "log.jsonl"
    if not file.is_file():
        return
    for line in file.read_text(errors="replace").splitlines():
        try:
            row = parse_json(line)
        except ElgoError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def validation_gaps(row: dict[str, Any]) -> dict[str, float]:
    """Return the best-of-starts gaps in a row of the log."""
    known = {"step", "seconds", "cpu_seconds", "core_hours", "loss", "instances", "lr", "done"}
    return {name: value for name, value in row.items() if name not in known and not name.endswith("/single")}


def _fixed_fields(config: Config) -> dict[str, Any]:
    """Return the config without what may change between sessions of one run."""
    values: dict[str, Any] = json.loads(to_json(config))
    length = () if config.train.schedule == "linear" else ("steps", "minutes")  # a rate that falls depends on it
    for name in ("checkpoint_minutes", *length):
        values["train"].pop(name)
    return values


def versions() -> dict[str, str]:
    """Return versions, machine and revision, for the record."""
    import numba
    import numpy

    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        revision = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        revision = "unknown"
    return {
        "elgo": __version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "revision": revision,
    }
