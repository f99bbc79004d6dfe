"""Imitation: sequences of solutions, the loss by hand, and one batch overfitted."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from samples import random_policy
from tiny import NETWORK, assert_same_gradients, gradients, simple_labels
from torch import Tensor

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.problem.augment import SYMMETRIES, symmetry
from elgo.problem.task import Task
from elgo.train.imitate import ImitationBatch, choose_steps, imitation_loss, make_imitation_batch, rotated
from elgo.train.labelling import Labelled, label


def all_steps(labelled: ImitationBatch) -> Tensor:
    return torch.arange(1, labelled.actions.shape[2])


def small_policy(problem: str) -> Policy:
    return random_policy(PolicyConfig(problem, **{**NETWORK, "neighbours": 5}), seed=1)


def edges(sequence: list[int]) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in pairwise([*sequence, sequence[0]])}


def routes_of(sequence: list[int]) -> list[list[int]]:
    """The routes of a sequence that ends at the depot and may be padded."""
    routes: list[list[int]] = [[]]
    for node in sequence:
        if node:
            routes[-1].append(node)
        elif routes[-1]:
            routes.append([])
    return routes[:-1]


# --- sequences


def test_tours_are_followed_from_every_node_in_both_directions() -> None:
    labels = simple_labels("tsp", [7, 7])
    actions = make_imitation_batch(labels, 60, np.random.default_rng(0)).actions
    assert actions.shape == (2, 60, 7)
    for x, sequences in zip(labels, actions.tolist(), strict=True):
        assert all(edges(sequence) == edges(x.tour.tolist()) for sequence in sequences)
        forward = {(sequence[0], sequence[1] == (sequence[0] + 1) % 7) for sequence in sequences}
        assert len(forward) == 14  # every start in every direction


def test_routes_are_followed_in_random_order_and_direction() -> None:
    (x,) = simple_labels("cvrp", [16])
    routes = x.routes
    assert len(routes) >= 2
    labelled = make_imitation_batch([x], 80, np.random.default_rng(0))
    seen = set()
    for sequence in labelled.actions[0].tolist():
        assert sequence[-1] == 0
        found = routes_of(sequence)
        assert {frozenset(route) for route in found} == {frozenset(route) for route in routes}
        assert all(tuple(route) in routes or tuple(route[::-1]) in routes for route in found)
        seen.update((place, tuple(route)) for place, route in enumerate(found))
    assert len(seen) == 2 * len(routes) ** 2  # each route in both directions, at each place
    assert labelled.route_ends is not None
    assert set(labelled.route_ends[0].nonzero().flatten().tolist()) == {end for r in routes for end in (r[0], r[-1])}


def test_rotation_keeps_shape_and_demands() -> None:
    (x,) = simple_labels("cvrp", [12])
    rng = np.random.default_rng(1)

    def shape(points: np.ndarray) -> np.ndarray:
        distance = np.linalg.norm(points[:, None] - points[None], axis=2)
        return distance / distance.max()

    handed = set()
    for _ in range(12):
        task = rotated(x, rng)
        np.testing.assert_allclose(shape(task.coords), shape(x.sample.coords), atol=1e-12)
        assert np.ptp(task.coords, axis=0).max() == pytest.approx(1)
        assert task.coords.min() >= -1e-12
        assert task.demand is x.sample.demand
        a, b = np.diff(task.coords[:3], axis=0)
        handed.add(float(np.sign(a[0] * b[1] - a[1] * b[0])))
    assert handed == {-1.0, 1.0}  # rotations, and reflections


def test_raw_coordinates_are_turned_by_the_symmetries_of_the_square() -> None:
    (x,) = simple_labels("tsp", [12])
    points = 0.2 + 0.5 * x.sample.coords / x.sample.coords.max()
    x, rng = replace(x, sample=x.sample._replace(coords=points)), np.random.default_rng(1)
    images = [symmetry(points, index) for index in range(SYMMETRIES)]
    turned = [rotated(x, rng, "raw").coords for _ in range(60)]
    seen = [[np.array_equal(points, image) for image in images] for points in turned]
    assert np.sum(seen, axis=1).tolist() == [1] * 60
    assert np.any(seen, axis=0).all()


def test_a_batch_is_a_function_of_its_seed() -> None:
    labels = simple_labels("cvrp", [9, 10])
    one, two, other = (make_imitation_batch(labels, 3, np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert torch.equal(one.actions, two.actions)
    assert torch.equal(one.batch.coords, two.batch.coords)
    assert not torch.equal(one.batch.coords, other.batch.coords)


def test_some_of_the_steps() -> None:
    rng = np.random.default_rng(0)
    assert choose_steps(6, 0, rng).tolist() == choose_steps(6, 5, rng).tolist() == [1, 2, 3, 4, 5]
    drawn = [choose_steps(6, 3, rng).tolist() for _ in range(50)]
    assert all(len(set(steps)) == 3 for steps in drawn)
    assert {step for steps in drawn for step in steps} == {1, 2, 3, 4, 5}


# --- the loss


@torch.no_grad()
def stepped(policy: Policy, labelled: ImitationBatch) -> list[list[list[Tensor]]]:
    """Probabilities (N,) of each step of each sequence, state by state."""
    state = policy.env.start(labelled.batch, labelled.actions[:, :, 0])
    cache = policy.encode(labelled.batch)
    rows = []
    for t in range(1, labelled.actions.shape[2]):
        rows.append(policy.logits(cache, state).softmax(-1))
        state = policy.env.step(labelled.batch, state, labelled.actions[:, :, t])
    return [
        [[row[i, m] for row in rows] for m in range(labelled.actions.shape[1])] for i in range(len(labelled.actions))
    ]


def test_tsp_loss_by_hand() -> None:
    policy = small_policy("tsp")
    labelled = make_imitation_batch(simple_labels("tsp", [6, 6]), 2, np.random.default_rng(0))
    loss, count = imitation_loss(policy, labelled, all_steps(labelled))
    expected = 0.0
    for sequences, steps in zip(labelled.actions.tolist(), stepped(policy, labelled), strict=True):
        for sequence, rows in zip(sequences, steps, strict=True):
            expected -= sum(float(row[node].log()) for row, node in zip(rows, sequence[1:], strict=True))
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert float(count) == 2 * 2 * 5


def two_routes() -> ImitationBatch:
    """Routes (1, 2) and (3, 4, 5), visited as 1 2 | 3 4 5 |, with two steps of padding."""
    coords = np.array([[0, 0], [1, 5], [2, 4], [6, 1], [5, 2], [4, 0]], dtype=float)
    x = label(Task(coords, np.array([0, 3, 3, 2, 2, 2]), 6), [[1, 2], [3, 4, 5]])
    labelled = make_imitation_batch([x], 1, np.random.default_rng(0))
    return labelled._replace(actions=torch.tensor([[[1, 2, 0, 3, 4, 5, 0, 0, 0]]]))


def test_every_end_of_a_remaining_route_is_right_at_the_depot() -> None:
    policy, labelled = small_policy("cvrp"), two_routes()
    ((rows,),) = stepped(policy, labelled)
    right = [rows[0][2], rows[1][0], rows[2][3] + rows[2][5], rows[3][4], rows[4][5], rows[5][0]]
    assert float(rows[2][1]) == float(rows[2][2]) == 0.0  # the first route is done
    loss, count = imitation_loss(policy, labelled, all_steps(labelled))
    assert loss.item() == pytest.approx(-sum(float(p.log()) for p in right), rel=1e-4)
    assert float(count) == 6
    chosen = torch.tensor([3, 7])  # the depot's choice, and padding
    loss, count = imitation_loss(policy, labelled, chosen)
    assert loss.item() == pytest.approx(-float(right[2].log()), rel=1e-4)
    assert float(count) == 1


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_sizes_may_be_mixed_and_instances_split(problem: str) -> None:
    policy = small_policy(problem)
    labelled = make_imitation_batch(simple_labels(problem, [8, 11, 6]), 3, np.random.default_rng(0))
    loss, count = imitation_loss(policy, labelled, all_steps(labelled))
    whole = gradients(policy, loss)
    parts = [imitation_loss(policy, labelled.select(torch.tensor(rows)), all_steps(labelled)) for rows in ([0, 2], [1])]
    assert_same_gradients(gradients(policy, sum(part for part, _ in parts)), whole)
    assert sum(part for part, _ in parts).item() == pytest.approx(loss.item(), rel=1e-5)
    assert float(sum(moves for _, moves in parts)) == float(count)
    if problem == "tsp":
        assert float(count) == 3 * (7 + 10 + 5)


# --- learning


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_one_batch_is_overfitted(problem: str) -> None:
    torch.manual_seed(0)
    policy = Policy(PolicyConfig(problem, **{**NETWORK, "width": 32, "hidden": 64}))
    labels: list[Labelled] = simple_labels(problem, [10, 10])
    labelled = make_imitation_batch(labels, 2, np.random.default_rng(0))
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-2)
    losses = []
    for _ in range(120):
        optimiser.zero_grad()
        loss, count = imitation_loss(policy, labelled, all_steps(labelled))
        (loss / count).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
        losses.append((loss / count).item())
    assert min(losses[-10:]) < 0.2 * losses[0]
