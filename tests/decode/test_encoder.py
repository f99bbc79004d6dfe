"""The encoder and the tables without torch are those of torch; BLAS keeps its threads."""

from threading import Barrier, Thread

import numpy as np
import pytest
import torch
from samples import random_policy, random_task, small_config
from threadpoolctl import ThreadpoolController

from elgo.decode.blas import one_blas_thread
from elgo.decode.compiled import as_arrays, as_weights
from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.encoder import ROWS, encode, encode_batch
from elgo.decode.tables import global_tables, local_tables
from elgo.model.checkpoint import Weights, load_model, load_weights
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.problem.task import PROBLEMS, Task
from elgo.train.log_prob import local_tensors


def weights_of(policy: Policy) -> Weights:
    weights = as_weights(policy)
    assert weights is not None
    return weights


def assert_same_encoding(policy: Policy, weights: Weights, task: Task, atol: float = 2e-4) -> None:
    with torch.inference_mode():
        (expected,) = as_arrays(policy.encode(make_batch([task])))
    for name, ours in encode(weights, task)._asdict().items():
        theirs = getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == np.float32
            np.testing.assert_allclose(ours, theirs, atol=atol, err_msg=name)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    "changes", [{}, {"heads": 1}, {"width": 48, "heads": 12}, {"hidden": 40, "layers": 3}], ids=str
)
def test_the_encoding_is_torchs(problem: str, changes: dict) -> None:
    policy = random_policy(small_config(problem, **changes), seed=3)
    rng = np.random.default_rng(0)
    for n in (3, 8, 50, 300):
        assert_same_encoding(policy, weights_of(policy), random_task(rng, problem, n))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_batch_is_encoded_as_its_tasks_are(problem: str) -> None:
    weights = weights_of(random_policy(small_config(problem, layers=2), seed=3))
    rng = np.random.default_rng(0)
    for n in (3, 21, 101):
        tasks = [random_task(rng, problem, n) for _ in range(5)]
        for task, encoding in zip(tasks, encode_batch(weights, tasks), strict=True):
            for ours, alone in zip(encoding, encode(weights, task), strict=True):
                assert (ours is None) == (alone is None)
                if ours is not None and alone is not None:
                    np.testing.assert_allclose(ours, alone, atol=1e-4)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_tours_of_many_tasks_are_those_of_each_alone(problem: str) -> None:
    policy, rng = random_policy(small_config(problem)), np.random.default_rng(0)
    tasks = [random_task(rng, problem, n) for n in [20] * 30 + [31] * 40]
    starts = [np.arange(1, 2 + i % 3) for i in range(len(tasks))]
    config = DecodeConfig(path="compiled", threads=2)
    together = decode(policy, tasks, starts, config)
    for task, nodes, found in zip(tasks, starts, together, strict=True):
        np.testing.assert_array_equal(found.actions, decode(policy, [task], [nodes], config)[0].actions)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_shipped_models(problem: str) -> None:
    """More nodes than go through the feed-forward block at once."""
    task = random_task(np.random.default_rng(0), problem, 500)
    assert task.size > ROWS
    policy, weights = load_model("elg", problem), load_weights("elg", problem)
    assert_same_encoding(policy, weights, task, atol=1e-3)  # of numbers up to about 50
    starts = [np.arange(1, 100, 10)]
    config = DecodeConfig(threads=2)
    (ours,), (theirs,) = (decode(model, [task], starts, config) for model in (weights, policy))
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    (plain,) = decode(policy, [task], starts, DecodeConfig(path="torch", threads=1))
    np.testing.assert_array_equal(ours.actions, plain.actions)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_encoding_of_torch_gives_the_same_tables(problem: str) -> None:
    policy = random_policy(small_config(problem), seed=3)
    weights, tasks = weights_of(policy), [random_task(np.random.default_rng(seed), problem, 21) for seed in (0, 1)]
    with torch.inference_mode():
        encodings = as_arrays(policy.encode(make_batch(tasks)))
    for task, encoding in zip(tasks, encodings, strict=True):
        theirs, ours = (global_tables(weights, x, True) for x in (encoding, encode(weights, task)))
        for name, table in ours._asdict().items():
            np.testing.assert_allclose(table, getattr(theirs, name), atol=1e-4, err_msg=name)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("changes", [{}, {"positional": False}, {"neighbours": 7}, {"local_width": 18}], ids=str)
def test_local_tables_are_those_that_training_differentiates(problem: str, changes: dict) -> None:
    policy = random_policy(small_config(problem, **changes), seed=3)
    for ours, theirs in zip(local_tables(weights_of(policy)), local_tensors(policy), strict=True):
        np.testing.assert_allclose(ours, theirs.detach(), atol=1e-5)


def test_weights_without_torch_know_what_they_cannot_do() -> None:
    task = random_task(np.random.default_rng(0), "tsp", 4)
    weights = Weights(PolicyConfig("tsp", local_layers=2), {})
    with pytest.raises(
        ValueError, match="local_layers is 2, which needs the network in torch: load it with load_model"
    ):
        decode(weights, [task], [np.array([0])])
    with pytest.raises(ValueError, match="path is 'torch', which needs the network in torch"):
        decode(load_weights("elg", "tsp"), [task], [np.array([0])], DecodeConfig(path="torch"))


def test_encoding_stops_when_it_is_told_to() -> None:
    """An interrupted decoder does not wait for the end of an encoding, whose time grows with N^2."""
    seen: list[float] = []

    def interrupt(fraction: float) -> None:
        seen.append(fraction)
        raise KeyboardInterrupt

    task = random_task(np.random.default_rng(0), "tsp", 3000)
    with pytest.raises(KeyboardInterrupt):
        decode(load_weights("elg", "tsp"), [task] * 20, [np.array([0])] * 20, DecodeConfig(threads=1), None, interrupt)
    assert seen == [0.0]


def blas_threads() -> list[int]:
    return [x["num_threads"] for x in ThreadpoolController().info() if x["user_api"] == "blas"]


def test_blas_has_its_threads_again_after_the_last_of_several_blocks() -> None:
    with one_blas_thread():
        pass  # loads the BLAS that is to be limited
    before, both, first_left = blas_threads(), Barrier(2), Barrier(2)
    seen: list[list[int]] = []

    def one() -> None:
        with one_blas_thread():
            both.wait()
        first_left.wait()

    def other() -> None:
        with one_blas_thread():
            both.wait()
            first_left.wait()
            seen.append(blas_threads())

    threads = [Thread(target=one), Thread(target=other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen[0]) == {1}
    assert blas_threads() == before
