"""The window policy: what it must not depend on, and what can be chosen. Its equations are tested in test_policy."""

import numpy as np
import pytest
import torch
from samples import after, random_policy, random_task, random_walk, small_config

from elgo import kin
from elgo.decode.rollout import DecodeConfig, decode
from elgo.model.env import PROBLEMS, Task, make_batch
from elgo.model.neighbours import Neighbourhood, nearest
from elgo.model.policy import Policy, PolicyConfig
from elgo.window import show_kin

PLAIN = DecodeConfig(path="plain", threads=1)
FAST = DecodeConfig(path="fast", threads=1)


def window_config(problem: str, **changes: object) -> PolicyConfig:
    window = {"local": "window", "local_layers": 2, "global_policy": False, "penalty": False, "neighbours": 7}
    return small_config(problem, **window | changes)


def window_policy(problem: str, **changes: object) -> Policy:
    return random_policy(window_config(problem, **changes), scale=1.5)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_only_the_window_can_be_chosen(problem: str) -> None:
    policy = window_policy(problem)
    task = random_task(np.random.default_rng(0), problem, 30)
    cache, state = after(policy, task, [3, 4])
    logits = policy.logits(cache, state)[0, 0]
    rho = np.hypot(*(task.coords - task.coords[4]).T)
    nearest = [node for node in np.argsort(rho) if node not in (3, 4) and (problem == "tsp" or node != 0)]
    if problem == "cvrp":
        nearest = [node for node in nearest if task.demand[node] <= state.load.item()]
    expected = {*nearest[:7], *([0] if problem == "cvrp" else [])}
    assert set(torch.nonzero(logits.isfinite()).flatten().tolist()) == expected


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("moves", [1, 12])
def test_rotation_scale_and_translation_change_nothing(problem: str, moves: int) -> None:
    """Also where the anchor gives no direction: at the first node of a tour and at the depot."""
    policy, rng = window_policy(problem), np.random.default_rng(1)
    task = random_task(rng, problem, 40)
    walk = random_walk(rng, task, moves)
    walk = [*walk, 0] if problem == "cvrp" and moves > 1 and walk[-1] != 0 else walk
    turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])
    moved = task._replace(coords=5.0 * task.coords @ turn.T + 3.0)
    usual, other = (policy.logits(*after(policy, x, walk)) for x in (task, moved))
    torch.testing.assert_close(other, usual, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("nodes", [20, 150])
def test_the_depot_of_many_routes_looks_like_that_of_few(nodes: int) -> None:
    policy, rng = window_policy("cvrp", kin=True), np.random.default_rng(2)
    cache, state = after(policy, random_task(rng, "cvrp", nodes), [3])
    candidates = ~state.visited & (torch.arange(nodes) > 0)
    near = nearest(cache.batch, state.current, candidates, 7)
    seen = policy.local.window(cache, state, near)
    assert cache.kin[0, 0].sum() > (5 if nodes > 100 else 0)
    assert seen.anchor.abs().max() < 3


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_far_anchor_is_drawn_nearer(problem: str) -> None:
    """All features stay small, however far the anchor is: what a large instance shows, a small one has shown."""
    policy = window_policy(problem)
    coords = np.concatenate([[[1000.0, 0.0]], np.random.default_rng(0).random((20, 2))])
    task = Task(coords, None, None)
    if problem == "cvrp":
        task = Task(coords, np.r_[0, np.ones(20, np.int64)], 50)
    cache, state = after(policy, task, [0, 3] if problem == "tsp" else [3])
    near = torch.tensor([[[5, 6, 7]]])
    rho = torch.tensor([[[0.1, 0.2, 0.3]]])
    seen = Neighbourhood(near, torch.ones_like(near, dtype=torch.bool), rho, rho, rho[..., -1:])
    window = policy.local.window(cache, state, seen)
    assert window.anchor[0, 0] == 2.0
    assert 8 < window.anchor[0, 1] < 9  # log(1 + 1000 / 0.3)
    assert window.nodes.abs().max() < 5


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("path", [PLAIN, FAST], ids=["plain", "fast"])
def test_tiny_tasks(problem: str, path: DecodeConfig) -> None:
    policy = window_policy(problem)
    for n in (2, 3, 5):
        task = random_task(np.random.default_rng(n), problem, n)
        (actions,) = decode(policy, [task], [np.arange(n - 1) + (problem == "cvrp")], path)
        for row in actions.tolist():
            assert sorted(set(row) - {0}) == list(range(1, n))


def test_bad_configs() -> None:
    with pytest.raises(ValueError, match="local is 'wide', must be light or window"):
        small_config("tsp", local="wide")
    with pytest.raises(ValueError, match="local_layers is 0, but a window needs at least 1"):
        window_config("tsp", local_layers=0)
    with pytest.raises(ValueError, match="kin is on, but only a window sees it"):
        small_config("tsp", kin=True)


@pytest.mark.parametrize(
    ("strong", "expected"),
    [
        ([], [1, 2, 3, 4]),
        ([2], [1, 2, 3, 4]),
        ([9], [1, 2, 3, 9]),
        ([7, 9], [1, 2, 9, 7]),
        ([4, 9], [1, 2, 9, 4]),  # does not drive out other strong kin
        ([3, 6, 8, 9], [1, 8, 3, 6]),  # two at most
        ([1, 2, 3, 4, 9], [1, 2, 3, 4]),
        ([5], [1, 2, 3, 4]),  # visited
    ],
)
def test_strong_kin_that_is_far_away_is_shown(strong: list[int], expected: list[int]) -> None:
    task = Task(np.stack([np.arange(10.0), np.zeros(10)], axis=1), None, None)
    batch, current = make_batch([task]), torch.tensor([[0]])
    candidates = torch.ones(1, 1, 10, dtype=torch.bool)
    candidates[0, 0, [0, 5]] = False
    beside = torch.zeros(1, 1, 10, dtype=torch.bool)
    beside[0, 0, strong] = True
    near = show_kin(nearest(batch, current, candidates, 4), batch, beside, current, candidates)
    assert near.node[0, 0].tolist() == expected
    assert near.rho[0, 0].tolist() == expected  # they lie on a line
    assert near.radius.item() == 4


def test_nothing_is_hidden_where_all_is_shown() -> None:
    task = Task(np.stack([np.arange(4.0), np.zeros(4)], axis=1), None, None)
    batch, current = make_batch([task]), torch.full((1, 20), 2)  # many states are looked up in another way than few
    candidates = torch.tensor([True, True, False, False]).expand(1, 20, 4)
    near = nearest(batch, current, candidates, 4)  # two places are empty
    beside = torch.tensor([True, False, False, False]).expand(1, 20, 4)
    after = show_kin(near, batch, beside, current, candidates)
    assert torch.equal(after.node, near.node)


def test_both_decoders_show_it() -> None:
    """Heaps far apart, and windows that have place for a part of one."""
    rng = np.random.default_rng(5)
    for n in (40, 90, 91, 92):
        coords = rng.random((n, 2)) + 20 * rng.integers(2, size=(n, 2))
        policy = window_policy("tsp", kin=True, neighbours=5)
        task, starts = Task(coords / 21, None, None), np.arange(n)
        plain, fast = (decode(policy, [task], [starts], config)[0] for config in (PLAIN, FAST))
        assert (plain == fast).all()


def test_both_decoders_choose_the_same_of_much_kin(monkeypatch: pytest.MonkeyPatch) -> None:
    """More strong kin than there is place for."""
    rng = np.random.default_rng(6)
    n = 30
    edges = np.stack(np.triu_indices(n, 1), axis=1)[rng.permutation(n * (n - 1) // 2)]
    much = kin._matrix(n, edges, rng.random(len(edges)).astype(np.float32))
    monkeypatch.setattr(kin, "find_kin", lambda task: much)
    policy = window_policy("tsp", kin=True, neighbours=4)
    task, starts = Task(rng.random((n, 2)), None, None), np.arange(n)
    plain, fast = (decode(policy, [task], [starts], config)[0] for config in (PLAIN, FAST))
    assert (plain == fast).all()


def test_both_decoders_do_without_strands_in_large_instances() -> None:
    n = kin.MOST_NODES + 5
    policy, task = window_policy("tsp", kin=True), random_task(np.random.default_rng(5), "tsp", n)
    begun = np.random.default_rng(6).permutation(n)[None, :-60]
    tours = [decode(policy, [task], [begun], config)[0] for config in (PLAIN, FAST)]
    np.testing.assert_array_equal(*tours)
