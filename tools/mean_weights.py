"""Write the mean of the weights of several files of one network: it often keeps what each of their trainings brought.

Use: python tools/mean_weights.py A.safetensors B.safetensors ... --out MEAN.safetensors
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from elgo.model.checkpoint import load_policy, save_policy
from elgo.model.ensemble import Policy
from elgo.problem.errors import ElgoError


def mean_policy(files: Sequence[Path]) -> Policy:
    """Return a policy with the mean weights of the files."""
    policies = [load_policy(file) for file in files]
    for file, policy in zip(files, policies, strict=True):
        if policy.config != policies[0].config:
            raise ElgoError(f"{file}: its config is not that of {files[0]}")
    states = [policy.state_dict() for policy in policies]
    mean = {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
    policies[0].load_state_dict(mean)
    return policies[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    given = parser.parse_args()
    save_policy(given.out, mean_policy(given.files), "mean of the weights of " + ", ".join(map(str, given.files)))
