"""Decoding: what comes out is a solution, the same under every memory limit and number of threads."""

import itertools
import threading
import time

import naive
import numpy as np
import pytest
import torch
from samples import KINDS, after, random_policy, random_task, small_config

import elgo.model.rollout
from elgo.decode.decoder import DecodeConfig
from elgo.decode.decoder import decode as decode_rollouts
from elgo.decode.types import Actions, Rollouts, longest
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.rollout import log_prob, sample
from elgo.problem.task import PROBLEMS, Task

PATHS = ("torch", "compiled")
SIZES = (3, 4, 9, 9, 14, 11)
SEED = 3  # of policies that make routes of several customers


def decode(*args, **options) -> list[Actions]:
    return [rollouts.actions for rollouts in decode_rollouts(*args, **options)]


@pytest.fixture(params=PROBLEMS)
def case(request: pytest.FixtureRequest) -> tuple[Policy, list[Task], list[np.ndarray]]:
    """A policy, tasks of several sizes, and for each another number of starts, some of them twice."""
    rng = np.random.default_rng(0)
    tasks = [random_task(rng, request.param, n, KINDS[i % 3]) for i, n in enumerate(SIZES)]
    starts = [rng.integers(request.param == "cvrp", n, m) for n, m in zip(SIZES, (2, 4, 1, 5, 7, 3), strict=True)]
    return random_policy(small_config(request.param), SEED, 1.5), tasks, starts


def config(path: str, **changes: object) -> DecodeConfig:
    return DecodeConfig(**{"path": path, "threads": 1, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sampled", [False, True])
def test_every_rollout_is_a_solution_from_its_start(case: tuple, path: str, sampled: bool) -> None:
    policy, tasks, starts = case
    rollouts = decode(policy, tasks, starts, config(path), np.random.default_rng(1) if sampled else None)
    for task, first, actions in zip(tasks, starts, rollouts, strict=True):
        assert actions.dtype == np.int32
        assert actions[:, 0].tolist() == first.tolist()
        assert len(first) == len(actions)
        assert actions.shape[1] <= longest(task, first)
        assert all(naive.is_solution(task, row) for row in actions.tolist())
        assert task.demand is None or actions[:, -2].any()  # nobody waits longer than for the last return


@pytest.mark.parametrize("path", PATHS)
def test_greedy_takes_the_best_node_at_each_step(case: tuple, path: str) -> None:
    policy, tasks, starts = case
    rollouts = decode(policy, tasks, starts, config(path))
    for task, actions in zip(tasks, rollouts, strict=True):
        walk = actions[0].tolist()
        for t in range(1, len(walk)):
            logits = policy.logits(*after(policy, task, walk[:t]))[0, 0]
            assert logits[walk[t]] >= logits.max() - 1e-3


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sampled", [False, True])
def test_any_memory_limit_and_thread_count_gives_the_same_tours(case: tuple, path: str, sampled: bool) -> None:
    policy, tasks, starts = case

    def tours(count: int = len(SIZES), **changes: object) -> list[list[list[int]]]:
        rng = np.random.default_rng(2) if sampled else None
        rollouts = decode(policy, tasks[:count], starts[:count], config(path, **changes), rng)
        return [actions.tolist() for actions in rollouts]

    usual = tours()
    for memory_gb in (1e-9, 1e-4) if path == "compiled" or not sampled else ():
        assert tours(memory_gb=memory_gb) == usual  # torch draws its noise for the batch, as memory divides it
    count = 2 if path == "torch" else len(SIZES)  # threads of torch wait in busy loops
    assert tours(count, threads=2) == tours(count)


@pytest.mark.parametrize("path", PATHS)
def test_the_order_of_tasks_does_not_matter(case: tuple, path: str) -> None:
    policy, tasks, starts = case
    usual = decode(policy, tasks, starts, config(path))
    turned = decode(policy, tasks[::-1], starts[::-1], config(path))
    assert all(np.array_equal(a, b) for a, b in zip(usual, turned[::-1], strict=True))
    alone = [decode(policy, [task], [first], config(path))[0] for task, first in zip(tasks, starts, strict=True)]
    assert all(np.array_equal(a, b) for a, b in zip(usual, alone, strict=True))


@pytest.mark.parametrize("path", PATHS)
def test_seeds(case: tuple, path: str) -> None:
    policy, tasks, starts = case
    policy = random_policy(small_config(policy.config.problem, clip=5.0), SEED)  # flat enough to differ
    first, again, other = (
        decode(policy, tasks, starts, config(path), np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("path", PATHS)
def test_progress_rises_to_one(case: tuple, path: str) -> None:
    policy, tasks, starts = case
    for memory_gb in (4.0, 1e-4):
        seen: list[float] = []
        decode(policy, tasks, starts, config(path, memory_gb=memory_gb), on_progress=seen.append)
        assert seen == sorted(seen)
        assert 0 <= seen[0] <= seen[-1] == 1
        assert len(seen) > 1


def test_a_task_s_neighbour_lists_count_once_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[int, ...]] = []

    def counted(policy: Policy, encoding: object, first: np.ndarray, *rest: object) -> tuple:
        passes.append(first.shape)
        return original(policy, encoding, first, *rest)

    original = elgo.model.rollout.rollout_arrays
    monkeypatch.setattr(elgo.model.rollout, "rollout_arrays", counted)
    policy = random_policy(small_config("tsp"))
    task = random_task(np.random.default_rng(0), "tsp", 60, KINDS[0])
    memory = 2 * (20 * 60 * 60 + 30 * 60 * (12 * policy.config.heads + 100))  # lists, and 30 rollouts
    decode(policy, [task], [np.arange(60)], config("torch", memory_gb=memory / 2**30))
    assert passes == [(1, 30), (1, 30)]


def test_progress_rises_where_rollouts_take_more_steps_than_nodes() -> None:
    """A trip for each customer takes 2 N steps."""
    rng = np.random.default_rng(0)
    tasks = [Task(rng.random((8, 2)), np.array([0] + [5] * 7), 5) for _ in range(3)]
    seen: list[float] = []
    policy = random_policy(small_config("cvrp"))
    decode(policy, tasks, [np.arange(1, 8)] * 3, config("torch", memory_gb=1e-9), on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1


@pytest.mark.parametrize("path", PATHS)
def test_an_interrupt_in_the_callback_leaves_at_once(path: str) -> None:
    """The kernels stop at their next step, and no thread stays behind."""
    task = random_task(np.random.default_rng(0), "tsp", 1000)
    policy = random_policy(small_config("tsp"))
    threads = threading.active_count()
    raised = []

    def interrupt(fraction: float) -> None:
        raised.append((fraction, time.perf_counter()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode(policy, [task], [np.arange(1000)], config(path, threads=2), on_progress=interrupt)
    (fraction, moment) = raised[0]
    assert fraction < 0.9
    assert time.perf_counter() - moment < 3  # all of it takes far longer
    assert threading.active_count() <= threads


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_sampled_tours_have_the_probabilities_of_the_policy(problem: str, path: str) -> None:
    """Frequencies of all complete rollouts of a small task against exp(log_prob)."""
    policy = random_policy(small_config(problem, clip=3.0), SEED)
    coords = np.random.default_rng(5).random((5, 2))
    task = Task(coords, None, None) if problem == "tsp" else Task(coords, np.array([0, 2, 1, 3, 1]), 4)
    count = 20_000
    actions = decode(policy, [task], [np.full(count, 1)], config(path), np.random.default_rng(0))[0]
    found, counts = np.unique(actions, axis=0, return_counts=True)
    with torch.no_grad():
        log_p = log_prob(policy, make_batch([task]), torch.from_numpy(found).long()[None])
    expected = log_p.sum(-1)[0].exp().numpy()
    assert len(found) > 10
    assert expected.sum() == pytest.approx(1, abs=2e-3)  # hardly anything that can happen did not
    deviation = np.abs(counts / count - expected) / np.sqrt(expected * (1 - expected) / count)
    assert deviation.max() < 4


def test_sampling_on_the_device() -> None:
    """Frequencies of softmax(logits), never a node of probability 0, the same with the same seed."""
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, np.log(3.0), -torch.inf]).expand(10, 4000, 5)
    first, again, other = (sample(logits, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert set(first.flatten().tolist()) == {1, 3}
    assert float((first == 3).float().mean()) == pytest.approx(0.75, abs=0.01)


def test_the_longest_rollout() -> None:
    cvrp = Task(np.zeros((7, 2)), np.ones(7, np.int64), 1)
    assert longest(Task(np.zeros((7, 2)), None, None), np.arange(7)) == 7
    assert longest(cvrp, np.arange(1, 7)) == 12  # a trip for each of 6 customers
    assert longest(cvrp, np.arange(7)) == 13  # and a start at the depot


@pytest.mark.parametrize("path", PATHS)
def test_one_customer_per_route(path: str) -> None:
    rng = np.random.default_rng(0)
    task = Task(rng.random((8, 2)), np.array([0] + [5] * 7), 9)
    actions = decode(random_policy(small_config("cvrp")), [task], [np.arange(1, 8)], config(path))[0]
    assert actions.shape == (7, 14)
    assert (actions[:, 1::2] == 0).all()
    actions = decode(random_policy(small_config("cvrp")), [task], [np.arange(8)], config(path))[0]
    assert actions.shape == (8, 15)  # from the depot as a start, too
    assert (actions[0, ::2] == 0).all()
    assert all(naive.is_solution(task, row) for row in actions.tolist())


@pytest.mark.parametrize("path", PATHS)
def test_loads_are_exact_beyond_floating_point(path: str) -> None:
    """One unit in 10^12 decides what fits."""
    demand = np.array([0, 10**12 - 3, 2, 4, 1, 10**12])
    task = Task(np.random.default_rng(0).random((6, 2)), demand, 10**12)
    for seed in range(5):
        policy = random_policy(small_config("cvrp"), seed)
        actions = decode(policy, [task], [np.arange(1, 6)], config(path), np.random.default_rng(seed))[0]
        assert all(naive.is_solution(task, row) for row in actions.tolist())


def test_auto_takes_the_compiled_path_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    made = [([0], [Rollouts(np.ones((1, 3), np.int32), np.zeros((1, 3), np.float32))])]
    for path in PATHS:
        monkeypatch.setattr(f"elgo.decode.decoder._{path}", lambda *args, path=path: used.append(path) or made)
    task = random_task(np.random.default_rng(0), "tsp", 3)
    for changes, path in itertools.product(({}, {"local_layers": 1}), ("auto", "torch")):
        decode(random_policy(small_config("tsp", **changes)), [task], [np.array([0])], config(path))
    assert used == ["compiled", "torch", "torch", "torch"]


def test_torch_threads_are_restored() -> None:
    before = torch.get_num_threads()
    task = random_task(np.random.default_rng(0), "tsp", 3)
    decode(random_policy(small_config("tsp")), [task], [np.array([0])], config("torch", threads=before + 1))
    assert torch.get_num_threads() == before


def test_gradients_are_not_recorded_and_parameters_not_changed(case: tuple) -> None:
    policy, tasks, starts = case
    before = [parameter.clone() for parameter in policy.parameters()]
    for path in PATHS:
        decode(policy, tasks, starts, config(path))
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, policy.parameters(), strict=True))


def test_the_compiled_path_refuses_what_it_cannot_do() -> None:
    task = random_task(np.random.default_rng(0), "tsp", 4)
    policy = random_policy(small_config("tsp", local_layers=1))
    with pytest.raises(ValueError, match="path is 'compiled', but the kernels know only"):
        decode(policy, [task], [np.array([0])], config("compiled"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "quick"}, "path is 'quick', must be one of auto, compiled, torch"),
        ({"threads": 0}, "threads is 0, must be at least 1"),
        ({"memory_gb": 0.0}, "memory_gb is 0.0, must be positive"),
    ],
)
def test_config_errors(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecodeConfig(**changes)


def test_a_large_task_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elgo.decode.decoder.LARGE", 50)
    task = random_task(np.random.default_rng(0), "tsp", 60)
    with pytest.raises(ValueError, match=r"memory_gb is 1e-05, but 60 nodes need 0\.0 GB"):
        decode(random_policy(small_config("tsp")), [task], [np.array([0])], config("compiled", memory_gb=1e-5))
