"""The compiled network of windows: the scores of torch, for windows of any size side by side; none twice."""

import numpy as np
import pytest
import torch
from samples import random_policy, random_task, small_config

from elgo import fast_window
from elgo.decode.rollout import DecodeConfig, decode, one_blas_thread
from elgo.fast_window import Sight
from elgo.fast_window_network import make_network, make_room, score
from elgo.model.env import PROBLEMS
from elgo.model.policy import Policy
from elgo.window import Window


def window_policy(problem: str, kin: bool) -> Policy:
    shape = {"local": "window", "local_layers": 2, "global_policy": False, "penalty": False, "neighbours": 7}
    return random_policy(small_config(problem, kin=kin, **shape), scale=1.5)


@pytest.mark.parametrize("kin", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_scores_are_those_of_torch(problem: str, kin: bool) -> None:
    rng, net = np.random.default_rng(0), window_policy(problem, kin).local
    network = make_network(net)
    found, k = np.array([7, 1, 4, 7, 3]), 7
    among = rng.random((5, 1 + k, 1 + k), np.float32)
    sight = Sight(
        rng.random((5, len(network.anchor)), np.float32), rng.random((5, k, len(network.nodes)), np.float32),
        among + among.transpose(0, 2, 1) if kin else among[:0],
        np.zeros((5, k), np.int64), np.zeros((5, k + 1), np.float32), found,
    )  # fmt: skip
    present = torch.arange(1 + k) < 1 + torch.from_numpy(found)[:, None]
    seen = (torch.from_numpy(x) for x in (sight.anchor, sight.nodes))
    with torch.inference_mode():
        expected = net(Window(*seen, present, torch.from_numpy(sight.kin) if kin else None)).numpy()
    rows, slot = np.array([4, 0, 2, 1]), np.array([2, 0, 5, 1, 3])  # row 3 is not asked for
    scores = np.full((6, 1 + k), np.nan, np.float32)
    with one_blas_thread():
        score(network, sight, rows, make_room(network, 5), scores, slot)
    for row in rows:
        at = slot[row]
        np.testing.assert_allclose(scores[at, : 1 + found[row]], expected[row, : 1 + found[row]], rtol=1e-3, atol=1e-5)
        assert np.isnan(scores[at, 1 + found[row] :]).all()
    assert np.isnan(scores[[1, 4]]).all()


def test_windows_that_look_the_same_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts of a CVRP that begin alike are one to the network, and windows without a choice are none."""
    scored, recall = [], fast_window.recall

    def count(*given: object) -> np.ndarray:
        new = recall(*given)
        scored.append(len(new))
        return new

    monkeypatch.setattr(fast_window, "recall", count)
    policy, task = window_policy("cvrp", True), random_task(np.random.default_rng(1), "cvrp", 30)
    one = decode(policy, [task], [np.array([3])], DecodeConfig(path="fast", threads=1))[0]
    alone = sum(scored)
    assert 0 < alone < one.shape[1]
    scored.clear()
    three = decode(policy, [task], [np.array([3, 3, 5])], DecodeConfig(path="fast", threads=1))[0]
    other = decode(policy, [task], [np.array([5])], DecodeConfig(path="fast", threads=1))[0]
    np.testing.assert_array_equal(three[:2, : one.shape[1]], np.repeat(one, 2, axis=0))
    np.testing.assert_array_equal(three[2, : other.shape[1]], other[0])
    assert sum(scored[: three.shape[1]]) <= 2 * alone + other.shape[1]
    assert max(scored[: three.shape[1]]) <= 2
