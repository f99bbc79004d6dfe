"""Cooling a run down: a branch of it, in a folder of its own, whose learning rate falls to 0."""

import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path

from elgo.problem.errors import ElgoError
from elgo.train.config import Config
from elgo.train.run import RunFolder, RunState, must_fit, read_stored_config


def branch(run: Path, folder: Path, steps: int = 0, minutes: float = 0.0) -> Config:
    """Return the config of a branch of a run that cools down for some steps or minutes; `train` goes on in its folder.

    A new branch begins with all of the run's last checkpoint: weights, optimiser, averaged weights, counters. One that
    exists is left as it is, to be continued.
    """
    stored = run / "config.json"
    if not stored.exists() or not (run / "checkpoint.pt").exists():
        raise ElgoError(f"{run}: no config.json and checkpoint.pt to cool; is this the folder of a run?")
    config = read_stored_config(stored)
    if config.train.schedule != "constant":
        raise ElgoError(f"{stored}: train.schedule is {config.train.schedule!r}, there is nothing to cool")
    cooling = replace(config, train=replace(config.train, schedule="linear", steps=steps, minutes=minutes))
    target = RunFolder(folder, cooling)
    saved = RunFolder(run, config).load()
    if target.load() is None and saved is not None:
        if (run / "labels").exists():  # made on the fly, and as good for the branch
            unfinished = shutil.ignore_patterns(".*.part")  # which the run may be writing now
            shutil.copytree(run / "labels", folder / "labels", ignore=unfinished, dirs_exist_ok=True)
        with must_fit(run / "checkpoint.pt"):
            state = RunState(**saved["state"])
        branch_point = {f"branch_{name}": getattr(state, name) for name in ("step", "seconds", "cpu_seconds")}
        new = replace(state, **branch_point, best=math.inf, validated=state.seconds, row={})
        target.save(saved | {"state": asdict(new)})
    return cooling
