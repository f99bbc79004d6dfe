"""The paper's model needs torch alone: no compiler, no classical solver."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import sys
for name in ("numba", "scipy", "fast_tsp"):
    sys.modules[name] = None  # importing it raises ImportError

import numpy as np
import torch
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.rollout import encode_tasks, log_prob, rollout_arrays
from elgo.problem.task import PROBLEMS, Task

for problem in PROBLEMS:
    torch.manual_seed(0)
    policy = Policy(PolicyConfig(problem, layers=2))
    demand, capacity = (np.array([0] + [1] * 8), 3) if problem == "cvrp" else (None, None)
    task = Task(np.random.default_rng(0).random((9, 2)), demand, capacity)
    starts = np.arange(1, 5)[None]
    actions, _ = rollout_arrays(policy, encode_tasks(policy, [task], 1), starts, None, threads=1)
    assert set(actions[0, 0]) == set(range(9))
    batch, chosen = make_batch([task]), torch.from_numpy(actions)
    logits = policy.logits(policy.encode(batch), policy.env.start(batch, torch.from_numpy(starts)))
    assert logits.shape == (1, 4, 9)
    log_prob(policy, batch, chosen).sum().backward()
    missing = [name for name, p in policy.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not missing, missing
print("done")
"""


def test_policies_run_without_numba_scipy_and_fast_tsp() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
