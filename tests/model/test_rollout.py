"""Rollouts in torch: nothing in the decoding loop waits for the device."""

from collections.abc import Callable
from typing import Any

import naive
import numpy as np
import pytest
import torch
from samples import random_policy, random_task, small_config
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elgo.model import rollout as module
from elgo.model.env import make_batch
from elgo.model.rollout import CHECK, rollout
from elgo.problem.task import PROBLEMS, Task

aten = torch.ops.aten
WAITING = {aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten._unique2, aten.is_nonzero, aten.equal}


class Waits(TorchDispatchMode):
    """Counts operations after which the host of a GPU waits for a result, or copies to another device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        packet = func.overloadpacket
        masks = [x for x in args[1] if x is not None and x.dtype == torch.bool] if packet is aten.index else []
        moved = packet in (aten._to_copy, aten.copy_) and kwargs.get("device", args[0].device) != args[0].device
        if packet in WAITING or masks or moved:
            self.found.append(str(func))
        return func(*args, **kwargs)


def tasks_of(problem: str, sizes: tuple[int, ...]) -> list[Task]:
    rng = np.random.default_rng(0)
    return [random_task(rng, problem, n) for n in sizes]


def roll_out(problem: str, sizes: tuple[int, ...], sampled: bool, confidence: bool = False) -> tuple[list[str], Tensor]:
    """What waits in a rollout, and its actions."""
    policy, tasks = random_policy(small_config(problem)), tasks_of(problem, sizes)
    generator = torch.Generator().manual_seed(0) if sampled else None
    with torch.no_grad():  # not inference mode, in which compound operations would be seen as one
        encoding = policy.prepare(policy.encode(make_batch(tasks)))
        starts = torch.ones(len(tasks), 4, dtype=torch.int64)
        with Waits() as waits:
            rolled = rollout(policy, encoding, starts, generator, confidence)
    for task, walks in zip(tasks, rolled.actions.tolist(), strict=True):
        walks = [list(dict.fromkeys(walk)) if problem == "tsp" else walk for walk in walks]  # padding stays
        assert all(naive.is_solution(task, walk) for walk in walks)
    return waits.found, rolled.actions


@pytest.mark.parametrize("sizes", [(40, 40), (40, 13)], ids=["one size", "padded"])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_tsp_never_waits(sizes: tuple[int, ...], sampled: bool) -> None:
    found, actions = roll_out("tsp", sizes, sampled, confidence=sampled)
    assert found == []
    assert actions.shape[2] == 40


@pytest.mark.parametrize("sampled", [False, True])
def test_a_cvrp_looks_rarely_whether_all_are_finished(sampled: bool) -> None:
    found, actions = roll_out("cvrp", (40, 13), sampled)
    looks = 1 + -(-(actions.shape[2] - 1 - 39) // CHECK)  # after the least number of moves, then every 16th
    assert found == ["aten._local_scalar_dense.default"] * (looks + 1)  # and one for the length, after the loop
    assert actions[:, :, -2].any()  # nobody waits longer than for the last return


def test_what_waits_is_noticed() -> None:
    x = torch.arange(4)
    acts: list[Callable[[], Any]] = [lambda: int(x[0]), lambda: bool((x > 1).any()), lambda: x[x > 1], x.nonzero]
    for act in acts:
        with Waits() as waits:
            act()
        assert waits.found


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_steps_of_a_rollout_run_without_any_values(problem: str) -> None:
    """On the meta device, where everything that looks at a value raises."""
    policy, task = random_policy(small_config(problem)).to("meta"), tasks_of(problem, (12,))[0]
    batch = make_batch([task]).to("meta")
    with torch.inference_mode():
        encoding = policy.prepare(policy.encode(batch))
        state = policy.env.start(batch, torch.ones(1, 4, dtype=torch.int64, device="meta"))
        for _ in range(3):
            scores, mask = policy.scores(encoding, state)
            state = policy.env.step(batch, state, (scores + mask).argmax(-1))
    assert state.current.shape == (1, 4)
    with pytest.raises(RuntimeError, match="meta"):
        bool(policy.env.finished(batch, state).all())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_looking_more_rarely_changes_nothing(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, usual = roll_out(problem, (20, 13), sampled=False)
    monkeypatch.setattr(module, "CHECK", 1)
    _, often = roll_out(problem, (20, 13), sampled=False)
    assert torch.equal(usual, often)
