"""The compiled path makes the tours of torch, greedy and sampled, in every way that it computes them."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numba import njit
from samples import KINDS, after, random_policy, random_task, small_config

from elgo.decode.arithmetic import UNDERFLOW, exp32, tanh32
from elgo.decode.compiled import as_weights, supports
from elgo.decode.decoder import DecodeConfig
from elgo.decode.decoder import decode as decode_rollouts
from elgo.decode.encoder import encode
from elgo.decode.tables import global_tables
from elgo.decode.types import Actions, longest
from elgo.decode.vectors import exp, load, store
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.problem.task import PROBLEMS, Task

PLAIN = DecodeConfig(path="torch", threads=1)
FAST = DecodeConfig(path="compiled", threads=1)
NO_TABLE = DecodeConfig(path="compiled", threads=1, memory_gb=1e-6)
TIE = 1e-4  # scores nearer than this may be ordered differently by two ways of summing in float32


def decode(*args, **options) -> list[Actions]:
    return [rollouts.actions for rollouts in decode_rollouts(*args, **options)]


def sampled_by_torch(policy: Policy, task: Task, starts: np.ndarray, uniforms: np.ndarray) -> Actions:
    """The rollouts that invert torch's distribution at a number for each move: the plain twin of the kernels."""
    batch = make_batch([task])
    encoding = policy.prepare(policy.encode(batch))
    actions = [torch.from_numpy(starts)[None]]
    state = policy.env.start(batch, actions[0])
    while not policy.env.finished(batch, state).all():
        mass = policy.logits(encoding, state).double().softmax(-1).cumsum(-1)
        number = torch.from_numpy(uniforms[None, :, len(actions), None]) * mass[..., -1:]
        actions.append(torch.searchsorted(mass, number, right=True).squeeze(-1))
        state = policy.env.step(batch, state, actions[-1])
    return torch.cat(actions).numpy().astype(np.int32).T


def mixed_tasks(problem: str, count: int, seed: int, most: int = 120) -> tuple[list[Task], list[np.ndarray]]:
    """Tasks of 3..most nodes of all kinds, and two starts for each."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[3, 4, most], rng.integers(3, most, count - 3)])
    tasks = [random_task(rng, problem, n, KINDS[i % 3]) for i, n in enumerate(sizes)]
    nodes = [np.arange(problem == "cvrp", n) for n in sizes]
    return tasks, [rng.choice(choice, 2, replace=False) for choice in nodes]


def differing(
    policy: Policy, tasks: Sequence[Task], starts: Sequence[np.ndarray], config: DecodeConfig = FAST, seed: int = -1
) -> int:
    """Decode both ways, greedily or with a seed, and count the tasks that differ; each must come from a tie."""
    rng = None if seed < 0 else np.random.default_rng(seed)
    quick = decode(policy, tasks, starts, config, rng)
    if rng is None:
        plain = decode(policy, tasks, starts, PLAIN)
    else:
        rng = np.random.default_rng(seed)
        shapes = [(len(first), longest(task, first)) for task, first in zip(tasks, starts, strict=True)]
        numbers = [rng.random(shape, dtype=np.float32) for shape in shapes]
        plain = [sampled_by_torch(policy, *given) for given in zip(tasks, starts, numbers, strict=True)]
    count = 0
    for i, task in enumerate(tasks):
        pairs = [(m, a, b) for m, (a, b) in enumerate(zip(plain[i], quick[i], strict=True)) if not same(a, b)]
        for m, a, b in pairs:
            step = next(t for t in range(len(a)) if a[t] != b[t])
            uniform = None if rng is None else float(numbers[i][m, step])
            assert_tie(policy, task, a[:step].tolist(), int(a[step]), int(b[step]), uniform)
        count += bool(pairs)
    return count


def same(a: Actions, b: Actions) -> bool:
    """Whether two rollouts are equal; one of them may wait longer at the depot after its end."""
    size = min(len(a), len(b))
    return np.array_equal(a[:size], b[:size]) and not a[size:].any() and not b[size:].any()


def assert_tie(policy: Policy, task: Task, walk: list[int], a: int, b: int, uniform: float | None) -> None:
    """Both nodes are equally good choices of torch after the walk, up to rounding."""
    cache, state = after(policy, task, walk)
    if uniform is None:
        scores, closed = policy.scores(cache, state)
        scores = (scores + closed)[0, 0]
        assert scores.max() - scores[[a, b]].min() <= TIE
    else:
        mass = policy.logits(cache, state)[0, 0].double().softmax(-1).cumsum(-1)
        low, high = sorted((a, b))
        assert abs(mass[low] - uniform) <= TIE  # the number drawn lies on the edge between the two nodes
        assert abs(mass[high - 1] - uniform) <= TIE


@pytest.mark.parametrize("seed", [-1, 1], ids=["greedy", "sampled"])
def test_two_hundred_tasks_of_mixed_sizes(seed: int) -> None:
    """TSP and CVRP, with parameters as they are initialised and larger ones."""
    count = 0
    for problem in PROBLEMS:
        for scale in (1.0, 2.0):
            policy = random_policy(small_config(problem), seed=3, scale=scale)
            tasks, starts = mixed_tasks(problem, 50, seed=int(10 * scale))
            with torch.inference_mode():
                count += differing(policy, tasks, starts, seed=seed)
    assert count <= 1  # two nodes of one score, or a number drawn on the edge between them: `differing` made sure


def test_random_policies_have_scores_that_differ_and_routes_that_are_longer_than_one() -> None:
    """The comparison above is worth something: neither all ties nor a trip for every customer."""
    policy = random_policy(small_config("cvrp"), seed=3, scale=2.0)
    tasks, starts = mixed_tasks("cvrp", 20, seed=20)
    rollouts = decode(policy, tasks, starts, FAST)
    customers = sum((actions > 0).sum() for actions in rollouts)
    routes = sum(((actions > 0) & (np.pad(actions, ((0, 0), (0, 1)))[:, 1:] == 0)).sum() for actions in rollouts)
    assert customers / routes > 2
    scores, closed = policy.scores(*after(policy, tasks[2], [1]))
    assert scores[closed == 0].std() > 0.5


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    "changes",
    [
        {"penalty": False},
        {"positional": False},
        {"coordinates": "euclidean"},
        {"xi": 2.0, "neighbours": 20},
        {"neighbours": 5},
        {"neighbours": 200},
        {"global_policy": False},
        {"global_policy": False, "penalty": False},
        {"local_policy": False},
        {"local_policy": False, "penalty": False},
        {"clip": 10.0},
        {"heads": 1, "local_heads": 1},
        {"heads": 12, "width": 48},  # two tiles
        {"normalisation": "official"},
    ],
    ids=str,
)
def test_ablations(problem: str, changes: dict) -> None:
    policy = random_policy(small_config(problem, **changes), seed=3, scale=1.5)
    tasks, starts = mixed_tasks(problem, 4, seed=5, most=45)
    with torch.inference_mode():
        assert differing(policy, tasks, starts) == 0
        assert differing(policy, tasks, starts, seed=2) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_paper_network(problem: str) -> None:
    policy = random_policy(PolicyConfig(problem), seed=3)
    tasks, starts = mixed_tasks(problem, 4, seed=6, most=60)
    with torch.inference_mode():
        assert differing(policy, tasks, starts) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_without_the_table(problem: str) -> None:
    """So little memory that the glimpse is computed from queries and keys."""
    policy = random_policy(small_config(problem), seed=3, scale=2.0)
    tasks, starts = mixed_tasks(problem, 6, seed=7, most=60)
    with torch.inference_mode():
        assert differing(policy, tasks, starts, NO_TABLE) == 0
        assert differing(policy, tasks, starts, NO_TABLE, seed=3) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize("coordinates", ["polar", "euclidean"])
def test_short_neighbour_lists(problem: str, limit: int, coordinates: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the presorted list runs out, the search over all nodes finds the same neighbours, also among ties."""
    monkeypatch.setattr("elgo.decode.local_kernels.LIST_LIMIT", limit)
    policy = random_policy(small_config(problem, neighbours=6, coordinates=coordinates), seed=3, scale=2.0)
    tasks, starts = mixed_tasks(problem, 5, seed=8, most=45)
    with torch.inference_mode():
        assert differing(policy, tasks, starts) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_tables_that_underflow(problem: str) -> None:
    """Queries so large that the product of the tables vanishes for the open nodes, and the glimpse is recomputed."""
    policy = random_policy(small_config(problem), seed=3, scale=1.5)
    net = policy.global_
    with torch.no_grad():
        for layer in (net.query_last, net.query_first, net.query_load):
            if layer is not None:
                layer.weight.mul_(40)
    tasks, starts = mixed_tasks(problem, 6, seed=9, most=50)
    with torch.inference_mode():
        assert differing(policy, tasks, starts) == 0
        assert differing(policy, tasks, starts, seed=4) == 0
        assert smallest_sum(policy, tasks[2], starts[2][0]) < UNDERFLOW


def smallest_sum(policy: Policy, task: Task, start: int) -> float:
    """The smallest sum of a head's weights from the tables along a rollout."""
    weights, n = as_weights(policy), len(task.coords)
    tables = global_tables(weights, encode(weights, task), True)
    walk = decode(policy, [task], [np.array([start])], FAST)[0][0].tolist()
    smallest = np.inf
    for t in range(1, len(walk) - 1):
        _, state = after(policy, task, walk[:t])
        is_open = policy.env.valid(make_batch([task]), state)[0, 0].numpy()
        if task.demand is None:
            first = tables.query_first[start][:, None] @ tables.keys[:, :, :n]  # (H, 1, N)
            other = np.exp(first - first.max(axis=2, keepdims=True))[tables.head, 0].T
        else:
            other = np.exp(float(state.load) / task.capacity * tables.slope[0, :n])  # (N, 8)
        smallest = min(smallest, (tables.last[walk[t - 1], 0, :n] * other * is_open[:, None]).sum(axis=0).min())
    return smallest


@pytest.mark.parametrize("problem", PROBLEMS)
def test_local_attention_far_below_its_bound(problem: str) -> None:
    """Slopes so steep that the weights vanish next to the most that features could add."""
    policy = random_policy(small_config(problem), seed=3, scale=1.5)
    with torch.no_grad():
        policy.local.query.weight.mul_(200)
    tasks, starts = mixed_tasks(problem, 6, seed=14, most=50)
    with torch.inference_mode():
        assert differing(policy, tasks, starts) == 0


@pytest.mark.parametrize("factor", [100.0, 1000.0])
def test_a_load_that_weighs_very_much(factor: float) -> None:
    """exp(load * slope) alone would overflow float32."""
    policy = random_policy(small_config("cvrp"), seed=3, scale=1.5)
    with torch.no_grad():
        policy.global_.query_load.weight.mul_(factor)
    tasks, starts = mixed_tasks("cvrp", 6, seed=10, most=60)
    with torch.inference_mode():
        assert differing(policy, tasks, starts) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_weights_that_overflow_give_some_tour_and_no_crash(problem: str) -> None:
    """Scores that are not numbers must not become indices out of bounds."""
    policy = random_policy(small_config(problem), seed=3)
    with torch.no_grad():
        policy.global_.combine.weight.fill_(3e38)
    tasks, starts = mixed_tasks(problem, 4, seed=11, most=30)
    for rng in (None, np.random.default_rng(0)):
        for task, actions in zip(tasks, decode(policy, tasks, starts, FAST, rng), strict=True):
            first = problem == "cvrp"
            assert all(set(range(first, len(task.coords))) <= set(row.tolist()) for row in actions)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_points_on_top_of_each_other(problem: str) -> None:
    """Such nodes may have equal scores, so that their order is a matter of rounding; nothing else differs."""
    rng = np.random.default_rng(13)
    tasks = [random_task(rng, problem, n) for n in (10, 25, 40)]
    tasks = [task._replace(coords=np.round(2 * task.coords) / 2) for task in tasks]
    pile = random_task(rng, problem, 12)
    pile = pile._replace(coords=np.array([[0.1, 0.2]] + [[0.7, 0.9]] * 11))
    policy = random_policy(small_config(problem, neighbours=5, clip=2.0), seed=3)
    with torch.inference_mode():
        differing(policy, tasks, [np.arange(1, 8)] * 3)
        assert differing(policy, [pile], [np.arange(1, 8)], seed=5) == 0  # sampling tells equals apart


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_blocks_of_one_rollout(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elgo.decode.compiled.BLOCK", 1)
    policy = random_policy(small_config("tsp"), seed=3, scale=2.0)
    tasks, starts = mixed_tasks("tsp", 5, seed=12, most=40)
    with torch.inference_mode():
        assert differing(policy, tasks, starts, DecodeConfig(path="compiled", threads=threads)) == 0


def test_supports() -> None:
    assert supports(random_policy(small_config("tsp")))
    assert not supports(random_policy(small_config("tsp", local_layers=3)))


@njit
def vector_exp(x: np.ndarray) -> np.ndarray:
    """exp of an array of whole vectors."""
    out = np.empty_like(x)
    for i in range(0, x.size, 8):
        store(out, i, exp(load(x, i)))
    return out


def test_exp_and_tanh_are_exact_to_a_few_units() -> None:
    x = np.linspace(-86, 87, 2000).astype(np.float32)
    found = np.array([exp32(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=5e-7)
    assert exp32(np.float32(-1e30)) < 1e-37
    np.testing.assert_allclose(vector_exp(x), np.exp(x.astype(np.float64)), rtol=5e-7)
    assert vector_exp(np.full(8, -1e30, np.float32)).max() < 1e-37
    assert np.isnan(vector_exp(np.full(8, np.nan, np.float32))).all()
    x = np.linspace(-40, 40, 2001).astype(np.float32)
    found = np.array([tanh32(value) for value in x])
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), atol=3e-7)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_both_paths_know_their_confidence(problem: str) -> None:
    """The highest probability at each sampled move, from the logits; nothing is known of starts and greedy moves."""
    policy = random_policy(small_config(problem), seed=3, scale=1.5)
    tasks, starts = mixed_tasks(problem, 4, seed=9, most=40)
    with torch.inference_mode():
        for path in (PLAIN, FAST):
            sampled = decode_rollouts(policy, tasks, starts, path, np.random.default_rng(0))
            for task, (actions, found) in zip(tasks, sampled, strict=True):
                assert actions.shape == found.shape
                batch = make_batch([task])
                walks = torch.from_numpy(actions).long()[None]
                state = policy.env.along(batch, walks, torch.arange(1, actions.shape[1]))
                expected = policy.logits(policy.encode(batch), state).softmax(-1).amax(-1)
                np.testing.assert_allclose(found[:, 1:].ravel(), expected[0], atol=1e-3)
                assert (found[:, 0] == 0).all()
            assert not any(found.any() for _, found in decode_rollouts(policy, tasks, starts, path))
