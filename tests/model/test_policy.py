"""The policy's equations against the naive loops, and the properties that any such policy has."""

import math
from dataclasses import replace

import naive
import numpy as np
import pytest
import torch
from samples import KINDS, after, pad_walks, random_policy, random_task, random_walk, small_config, walk_states

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy, with_local
from elgo.model.env import Batch, make_batch
from elgo.model.global_policy import EncoderLayer, InstanceNorm
from elgo.model.neighbours import Neighbourhood, nearest, neighbour_lists, positional_encoding, rows_of_lists
from elgo.model.rollout import log_prob
from elgo.problem.task import PROBLEMS, Task

ABLATIONS = {
    "paper": {},
    "no penalty": {"penalty": False},
    "no positional encoding": {"positional": False},
    "euclidean": {"coordinates": "euclidean"},
    "xi 1.5": {"xi": 1.5},
    "xi 2": {"xi": 2.0},
    "K 20": {"neighbours": 20},
    "K 50": {"neighbours": 50},
    "K 1": {"neighbours": 1},
    "clip 10": {"clip": 10.0},
    "local only": {"global_policy": False, "local_width": 128, "local_heads": 8, "local_layers": 3},
    "local only, no layers": {"global_policy": False, "penalty": False},
    "global only": {"local_policy": False, "penalty": False},
    "first stage": {"local_policy": False},
}


def weights_of(policy: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.double().numpy() for name, value in policy.state_dict().items()}


def logits_after(policy: Policy, tasks: list[Task], walks: list[list[list[int]]]) -> torch.Tensor:
    """(B, M, N) logits after walks of equal length, M per task."""
    batch = make_batch(tasks)
    *_, state = walk_states(policy.env, batch, torch.tensor(walks))
    with torch.no_grad():
        return policy.logits(policy.encode(batch), state)


def agree(policy: Policy, task: Task, walks: list[list[int]]) -> None:
    """The policy's logits after each walk are the naive ones, up to float32."""
    for walk, expected in zip(walks, naive.logits(weights_of(policy), policy.config, task, walks), strict=True):
        found = logits_after(policy, [task], [[walk]])[0, 0]
        np.testing.assert_allclose(found, expected, atol=2e-5 * policy.config.clip, rtol=0)


# --- the equations, one by one


def test_instance_norm_over_the_real_nodes() -> None:
    torch.manual_seed(0)
    norm, x = InstanceNorm(5), torch.randn(2, 7, 5) * 3 + 1
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    weight, bias = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    for real, sizes in ((None, (7, 7)), (torch.arange(7) < torch.tensor([[7], [4]]), (7, 4))):
        out = norm(x, real).detach()
        for b, size in enumerate(sizes):
            expected = naive.instance_norm(list(x[b, :size].double().numpy()), weight, bias)
            np.testing.assert_allclose(out[b, :size], expected, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 4])
def test_encoder_layer(heads: int) -> None:
    torch.manual_seed(heads)
    layer, x = EncoderLayer(16, heads, 24), torch.randn(2, 9, 16)
    for norm in (layer.norm1, layer.norm2):
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    assert layer.qkv.bias is None
    weights = {f"l.{name}": value for name, value in weights_of(layer).items()}
    for real, sizes in ((None, (9, 9)), (torch.arange(9) < torch.tensor([[9], [5]]), (9, 5))):
        out = layer(x, real).detach()
        for b, size in enumerate(sizes):
            expected = naive.encoder_layer(weights, "l", list(x[b, :size].double().numpy()), heads)
            np.testing.assert_allclose(out[b, :size], expected, atol=2e-5)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_global_scores(problem: str) -> None:
    """Encoder, glimpse and u_global alone, before the ensemble."""
    policy = random_policy(small_config(problem, local_policy=False, penalty=False), scale=1.5)
    rng = np.random.default_rng(0)
    task = random_task(rng, problem, 11)
    rows = naive.encode(weights_of(policy), policy.config, task)
    for steps in (1, 4, 9):
        walk = random_walk(rng, task, steps)
        scores, closed = policy.scores(*after(policy, task, walk))
        expected = naive.global_scores(weights_of(policy), policy.config, task, walk, rows)
        assert (closed[0, 0] == 0).nonzero().flatten().tolist() == sorted(expected)
        np.testing.assert_allclose(scores[0, 0, sorted(expected)].detach(), list(expected.values()), atol=2e-5)


# The corners of two 3-4-5 triangles around node 0, and one node further away.
TRIANGLES = np.array([[0.0, 0.0], [0.6, 0.8], [-0.3, 0.0], [0.0, -0.4], [3.0, 4.0]])


def neighbourhood(batch: Batch, current: list | torch.Tensor, valid: list | torch.Tensor, k: int) -> Neighbourhood:
    """The tokens of states with current nodes (B, M) and valid nodes (B, M, N); no depot has a capacity of 0."""
    current, valid = torch.as_tensor(current), torch.as_tensor(valid)
    return nearest(*rows_of_lists(batch, current, bool(batch.capacity.any()), k, None), current, valid)


def test_local_features_by_hand() -> None:
    policy = random_policy(small_config("cvrp", neighbours=3))
    batch = make_batch([Task(np.vstack([[[9.0, 9.0]], TRIANGLES]), np.array([0, 6, 1, 2, 3, 4]), 10)])
    state = policy.env.start(batch, torch.tensor([[1]]))
    near = neighbourhood(batch, state.current, [[[True, False, True, True, True, True]]], 3)
    assert near.node.tolist() == [[[0, 3, 4, 2]]]
    expected = [[0.3, math.pi, 2 / 4], [0.4, -math.pi / 2, 3 / 4], [1.0, math.atan2(4, 3), 1 / 4]]
    features = torch.stack(policy.local.features(state, near))[:, 0, 0]
    np.testing.assert_allclose(features[:, 1:].T, expected, rtol=1e-6)
    assert features[:, 0].tolist() == [0.0, 0.0, 0.0]  # the depot
    policy = random_policy(small_config("cvrp", neighbours=3, coordinates="euclidean"))
    offsets = torch.stack(policy.local.features(state, near))[:2, 0, 0]
    np.testing.assert_allclose(offsets.T, [[0, 0], [-0.3, 0], [0, -0.4], [0.6, 0.8]], atol=1e-7)


def test_absent_neighbours() -> None:
    batch = make_batch([Task(TRIANGLES, np.array([0, 2, 1, 2, 3]), 10)])
    near = neighbourhood(batch, [[1]], [[[False, False, True, False, True]]], 5)
    assert near.present.tolist() == [[[False, True, True, False, False]]]
    assert near.node.tolist() == [[[0, 2, 4, 1, 1]]]  # the current node, which has no distance
    assert near.relative[0, 0, 3:].tolist() == [0, 0]
    near = neighbourhood(make_batch([Task(TRIANGLES, None, None)]), [[1]], [[[False, False, True, False, True]]], 5)
    assert near.present.tolist() == [[[True, True, False, False, False]]]
    assert near.node.tolist() == [[[2, 4, 1, 1, 1]]]
    assert near.relative[0, 0, 2:].tolist() == [0, 0, 0]


def test_distance_penalty_by_hand() -> None:
    """With u_global = 0 and no local policy the scores are the penalties alone."""
    for xi in (1.0, 1.5, 2.0):
        policy = random_policy(small_config("tsp", neighbours=3, xi=xi, local_policy=False))
        silence(policy)
        scores, _ = policy.scores(*after(policy, Task(TRIANGLES, None, None), [0]))
        np.testing.assert_allclose(scores[0, 0, 1:].detach(), [-1, -0.3, -0.4, -xi], atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_official_radii_by_hand(scale: float) -> None:
    """The published code adds 1e-6 to a radius, but not in the penalty of a CVRP."""
    shares = np.array([1, 0.3, 0.4]) * scale / (scale + 1e-6)
    demand, options = np.array([0, 1, 1, 1, 1, 1]), {"neighbours": 3, "normalisation": "official"}
    for task, expected in (
        (Task(scale * TRIANGLES), shares),
        (Task(scale * np.vstack([[[9.0, 0.0]], TRIANGLES]), demand, 9), np.array([1, 0.3, 0.4])),
    ):
        depot = int(task.demand is not None)
        policy = random_policy(small_config(task.problem, local_policy=False, **options))
        silence(policy)
        scores, _ = policy.scores(*after(policy, task, [depot]))
        np.testing.assert_allclose(-scores[0, 0, depot + 1 : depot + 4].detach(), expected, rtol=1e-5)

        policy = random_policy(small_config(task.problem, penalty=False, **options))
        silence(policy)
        for name, parameter in policy.local.named_parameters():  # so that u_local is the first feature
            parameter.detach().fill_(float(name in ("combine.bias", "embed.weight")))
        policy.local.embed.weight.data[:, 1:] = 0
        policy.local.pe.zero_()
        scores, _ = policy.scores(*after(policy, task, [depot]))
        found = scores[0, 0, depot + 1 : depot + 4].detach() / math.sqrt(policy.config.local_width)
        np.testing.assert_allclose(found, shares, rtol=1e-5)


def test_the_depot_has_no_penalty() -> None:
    task = Task(np.vstack([[[9.0, 0.0]], TRIANGLES]), np.array([0, 1, 1, 1, 1, 1]), 9)
    policy = random_policy(small_config("cvrp", neighbours=3, local_policy=False))
    silence(policy)
    scores, _ = policy.scores(*after(policy, task, [1]))
    np.testing.assert_allclose(scores[0, 0, [0, 2, 3, 4, 5]].detach(), [0, -1, -0.3, -0.4, -1], atol=1e-6)


def silence(policy: Policy) -> None:
    """Make u_global 0."""
    torch.nn.init.zeros_(policy.global_.combine.weight)
    torch.nn.init.zeros_(policy.global_.combine.bias)


def test_the_local_view_of_the_depot_has_no_distance_and_no_angle() -> None:
    """Moving the depot changes nothing for the local policy."""
    rng = np.random.default_rng(0)
    task = random_task(rng, "cvrp", 9)
    moved = task._replace(coords=np.vstack([[[0.9, 0.1]], task.coords[1:]]))
    walk = random_walk(rng, task, 3)
    policy = random_policy(small_config("cvrp", global_policy=False))
    assert torch.equal(logits_after(policy, [task], [[walk]]), logits_after(policy, [moved], [[walk]]))


def test_positional_encoding() -> None:
    for width in (2, 8, 32):
        table = positional_encoding(40, width)
        if width > 2:
            expected = [naive.positional_encoding(rank, width) for rank in range(40)]
            np.testing.assert_allclose(table, expected, atol=1e-5)
        assert table[0].tolist() == [0.0] * (width // 2) + [1.0] * (width // 2)
    assert positional_encoding(3, 5).shape == (3, 5)


def test_ties_go_to_the_lower_index() -> None:
    """Points of a lattice, in two orders: of equally distant ones the lower index comes first and the last is cut."""
    lattice = np.array([[x, y] for x in range(5) for y in range(5)]) / 4
    for order in (np.arange(25), np.random.default_rng(0).permutation(25)):
        task = Task(lattice[order], None, None)
        batch = make_batch([task])
        current = torch.arange(25)[None]
        valid = ~torch.eye(25, dtype=torch.bool)[None]
        for k in (1, 2, 3, 6, 25):
            near = neighbourhood(batch, current, valid, k)
            for node in range(25):
                expected = [other for other, _ in naive.neighbourhood(task, [node], k)]
                assert near.node[0, node, : len(expected)].tolist() == expected
                assert near.present[0, node].sum() == len(expected) == min(k, 24)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_all_nodes_and_of_the_current_ones(kind: str, problem: str) -> None:
    """Few states have the neighbours of many, for which the lists of all nodes are made."""
    rng = np.random.default_rng(0)
    batch = make_batch([random_task(rng, problem, n, kind) for n in (30, 19)])
    current = torch.from_numpy(rng.integers(0, 19, (2, 90)))
    valid = torch.from_numpy(rng.random((2, 90, 30)) < rng.random((2, 90, 1))) & batch.real[:, None]
    for k in (1, 7, 30, 50):
        lists = neighbour_lists(batch, batch.coords, problem == "cvrp", k)
        many = nearest(lists, current + batch.first_row, current, valid)
        few = [neighbourhood(batch, current[:, i : i + 15], valid[:, i : i + 15], k) for i in range(0, 90, 15)]
        for name, found in many._asdict().items():
            expected = [getattr(near, name) for near in few]
            assert found is expected[0] is None or torch.equal(found, torch.cat(expected, dim=1))
        own = neighbourhood(batch, current, valid, k)
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(many, own, strict=True))


def test_nearest_handles_points_on_top_of_each_other() -> None:
    batch = make_batch([Task(np.zeros((4, 2)), None, None)])
    near = neighbourhood(batch, [[1]], [[[True, False, True, True]]], 2)
    assert near.node.tolist() == [[[0, 2]]]
    assert near.relative.tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ["paper", "local only", "euclidean", "no penalty"])
def test_a_prepared_encoding_gives_the_same_scores(name: str, problem: str) -> None:
    policy = random_policy(small_config(problem, **{"neighbours": 6, **ABLATIONS[name]}))
    rng = np.random.default_rng(0)
    tasks = [random_task(rng, problem, n) for n in (5, 12)]
    batch = make_batch(tasks)
    encoding = policy.encode(batch)
    walks = pad_walks([[random_walk(rng, task) for _ in range(3)] for task in tasks])
    for state in walk_states(policy.env, batch, walks):
        expected = policy.logits(encoding, state)
        torch.testing.assert_close(policy.logits(policy.prepare(encoding), state), expected)


# --- the whole network, each ablation


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ABLATIONS)
def test_logits_equal_the_naive_ones(name: str, problem: str) -> None:
    policy = random_policy(
        small_config(problem, **{"width": 16, "heads": 2, "layers": 1, **ABLATIONS[name]}), scale=1.3
    )
    rng = np.random.default_rng(len(name))
    for n, kind in ((4, "uniform"), (13, "lattice"), (55, "clustered")):  # fewer, some and more than K valid nodes
        task = random_task(rng, problem, n, kind)
        agree(policy, task, [random_walk(rng, task, steps) for steps in {1, n // 3, n - 1}])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_paper_network_equals_the_naive_one(problem: str) -> None:
    policy = random_policy(PolicyConfig(problem))
    rng = np.random.default_rng(0)
    task = random_task(rng, problem, 12)
    agree(policy, task, [random_walk(rng, task, steps) for steps in (1, 6)])


def test_the_paper_sizes() -> None:
    for problem, k in (("tsp", 30), ("cvrp", 40)):
        config = PolicyConfig(problem)
        assert (config.neighbours, config.clip, config.xi, config.penalty) == (k, 50.0, 1.0, True)
        assert (config.width, config.heads, config.layers, config.hidden) == (128, 8, 6, 512)
        assert (config.local_width, config.local_heads, config.positional, config.coordinates) == (32, 4, True, "polar")


def test_the_query_of_a_cvrp_begins_as_one_layer() -> None:
    """The published code has one layer of width + 1 inputs, the load the last of them: all have the same range."""
    for width in (16, 128):
        net = Policy(PolicyConfig("cvrp", width=width, heads=2, layers=1, hidden=8)).global_
        bound = 1 / math.sqrt(width + 1)
        for weight in (net.query_last.weight, net.query_load.weight):
            assert bound * 0.7 < weight.abs().max() <= bound


def test_each_ablation_changes_the_answer() -> None:
    """No option is without effect: each gives other logits from the same parameters."""
    rng = np.random.default_rng(3)
    task = random_task(rng, "cvrp", 70)
    walk = random_walk(rng, task, 5)
    policy = random_policy(small_config("cvrp"), scale=1.3)
    usual = logits_after(policy, [task], [[walk]])
    for name, changes in ABLATIONS.items():
        if name == "paper" or name.startswith("local only"):  # these have other parameters
            continue
        other = Policy(replace(policy.config, **changes))
        other.load_state_dict(policy.state_dict())
        assert not torch.allclose(logits_after(other, [task], [[walk]]), usual, atol=1e-3), name


# --- properties


@pytest.mark.parametrize("problem", PROBLEMS)
def test_permuting_nodes_permutes_the_logits(problem: str) -> None:
    policy = random_policy(small_config(problem, neighbours=6), scale=1.5)
    rng = np.random.default_rng(1)
    task = random_task(rng, problem, 20)
    order = np.arange(20)  # new place -> old place; the depot stays
    rng.shuffle(order[problem == "cvrp" :])
    place = np.argsort(order)
    permuted = Task(task.coords[order], None if task.demand is None else task.demand[order], task.capacity)
    for steps in (1, 8, 15):
        walk = random_walk(rng, task, steps)
        before = logits_after(policy, [task], [[walk]])[0, 0]
        behind = logits_after(policy, [permuted], [[place[walk].tolist()]])[0, 0]
        torch.testing.assert_close(behind, before[order], atol=5e-4, rtol=0)


@pytest.mark.parametrize("changes", [{}, ABLATIONS["local only"]])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_padding_does_not_change_the_logits(problem: str, changes: dict) -> None:
    policy = random_policy(small_config(problem, **changes), scale=1.5)
    rng = np.random.default_rng(2)
    small, large = random_task(rng, problem, 8), random_task(rng, problem, 45)
    walks = [[random_walk(rng, task, 5) for _ in range(3)] for task in (small, large)]
    together = logits_after(policy, [small, large], walks)
    assert torch.isinf(together[0, :, 8:]).all()
    torch.testing.assert_close(together[0, :, :8], logits_after(policy, [small], walks[:1])[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(together[1], logits_after(policy, [large], walks[1:])[0], atol=1e-3, rtol=0)


@pytest.mark.parametrize("changes", [{}, ABLATIONS["local only"]])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_log_prob_and_its_gradient_equal_stepping(problem: str, changes: dict) -> None:
    """Complete solutions of mixed sizes: all steps at once against one step at a time."""
    policy = random_policy(small_config(problem, **changes))
    rng = np.random.default_rng(4)
    tasks = [random_task(rng, problem, n, kind) for n, kind in zip((3, 7, 12), KINDS, strict=True)]
    batch = make_batch(tasks)
    walks = pad_walks([[random_walk(rng, task) for _ in range(3)] for task in tasks])
    weight = torch.from_numpy(rng.normal(size=(3, 3, walks.shape[2] - 1))).float()

    together = log_prob(policy, batch, walks)
    (together * weight).sum().backward()
    gradients = {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}

    policy.zero_grad()
    cache = policy.encode(batch)
    steps = []
    for t, state in enumerate(walk_states(policy.env, batch, walks[:, :, :-1]), start=1):
        log_p = policy.logits(cache, state).log_softmax(-1)
        steps.append(log_p.gather(2, walks[:, :, t : t + 1]).squeeze(2))
    stepped = torch.stack(steps, dim=2)
    (stepped * weight).sum().backward()

    torch.testing.assert_close(together, stepped, atol=5e-4, rtol=1e-4)
    for row, task in zip(range(3), tasks, strict=True):  # once nothing is left to do, waiting is certain
        for m, walk in enumerate(walks[row].tolist()):
            over = [naive.is_over(task, walk[:t]) for t in range(1, len(walk))]
            assert together[row, m][torch.tensor(over)].abs().sum() == 0
    scale = max(gradient.abs().max() for gradient in gradients.values())
    for name, parameter in policy.named_parameters():
        assert (parameter.grad is None) == (name not in gradients), name
        if parameter.grad is not None:
            assert torch.isfinite(parameter.grad).all(), name
            assert (parameter.grad - gradients[name]).abs().max() <= 2e-4 * scale, name


def test_log_prob_is_the_naive_probability() -> None:
    policy = random_policy(small_config("cvrp"))
    rng = np.random.default_rng(5)
    task = random_task(rng, "cvrp", 7)
    walk = random_walk(rng, task)
    states = [walk[:t] for t in range(1, len(walk))]
    logits = naive.logits(weights_of(policy), policy.config, task, states)
    expected = [math.log(naive.softmax(row.tolist())[node]) for row, node in zip(logits, walk[1:], strict=True)]
    found = log_prob(policy, make_batch([task]), torch.tensor([[walk]]))
    np.testing.assert_allclose(found[0, 0].detach(), expected, atol=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_all_parameters_learn(problem: str) -> None:
    """Every parameter gets a gradient, and with the local policy switched off only its own do not."""
    policy = random_policy(small_config(problem))
    rng = np.random.default_rng(6)
    task = random_task(rng, problem, 10)
    walks = pad_walks([[random_walk(rng, task) for _ in range(4)]])
    for on in (True, False):
        staged = with_local(policy, on)
        log_prob(staged, make_batch([task]), walks).sum().backward()
        idle = {name for name, p in staged.named_parameters() if p.grad is None or not p.grad.any()}
        local = {name for name, _ in staged.named_parameters() if name.startswith("local.")}
        assert idle == (set() if on else local)


def test_switching_the_local_policy_keeps_all_parameters() -> None:
    policy = random_policy(small_config("tsp"))
    staged = with_local(with_local(policy, False), True)
    assert staged.config == policy.config
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), staged.parameters(), strict=True))


def test_encoding_and_stepping_leave_no_trace_in_the_policy() -> None:
    policy = random_policy(small_config("tsp"))
    rng = np.random.default_rng(7)
    task, other = random_task(rng, "tsp", 8), random_task(rng, "tsp", 12)
    walk = random_walk(rng, task, 4)
    before = logits_after(policy, [task], [[walk]])
    logits_after(policy, [other], [[random_walk(rng, other, 6)]])
    assert torch.equal(logits_after(policy, [task], [[walk]]), before)


# --- the config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "vrptw"}, "problem is 'vrptw', must be one of tsp, cvrp"),
        ({"neighbours": -1}, "neighbours is -1, must be at least 1"),
        ({"layers": 0}, "layers is 0, must be at least 1"),
        ({"heads": 0}, "heads is 0, must be at least 1"),
        ({"width": 30, "heads": 4}, "width must be a multiple of heads"),
        ({"local_width": 30, "local_heads": 4}, "local_width of local_heads"),
        ({"coordinates": "spherical"}, "coordinates is 'spherical', must be one of polar, euclidean"),
        ({"normalisation": "unit"}, "normalisation is 'unit', must be one of fit, raw, official"),
        ({"xi": 0.5}, "xi is 0.5 and clip is 50.0: xi must be at least 1, clip positive, both at most 1e6"),
        ({"global_policy": False, "local_policy": False}, "global_policy and local_policy are both off"),
    ],
)
def test_config_errors(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyConfig(**{"problem": "tsp", **changes})
