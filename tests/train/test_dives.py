"""Dives: feasible, as good as plans allow, and walked in the order that a policy can follow."""

import numpy as np
import pytest

from elgo.kin import find_kin, kin_of
from elgo.problem.generate import Sample, generate
from elgo.train.config import DataConfig, load_config
from elgo.train.data import Groups
from elgo.train.dives import label_dive, walk_of_dive
from elgo.train.imitate import make_lesson
from elgo.train.labels import Labelled, as_task


def dive(customers: int, seed: int = 0) -> Labelled:
    rng = np.random.default_rng(seed)
    return label_dive(generate(rng, "cvrp", customers, "set_x"), rng)


@pytest.mark.parametrize("customers", [1, 2, 3, 40])
def test_every_customer_once(customers: int) -> None:
    found = dive(customers)  # label() has checked the loads
    walk = walk_of_dive(found, 7, np.random.default_rng(1))
    assert sorted(walk[walk > 0]) == list(range(1, customers + 1))
    assert walk[-1] == 0
    assert (walk == 0).sum() == len(found.routes)


def test_shares_of_1_are_taken() -> None:
    """Customers for whom the vehicle has no room beside others: the plans are the solution."""
    rng = np.random.default_rng(3)
    found = label_dive(Sample(rng.random((7, 2)), np.r_[0, np.full(6, 5)], 5), rng)
    assert found.routes == ((1,), (2,), (3,), (4,), (5,), (6,))


def test_most_routes_are_plans_and_come_first() -> None:
    found = dive(60)
    plans = find_kin(as_task(found.sample)).plans
    known = {frozenset(plan.tolist()) for plan in np.split(plans.node, plans.begin[1:-1])}
    is_plan = {route[0]: frozenset(route) in known for route in found.routes}
    is_plan |= {route[-1]: frozenset(route) in known for route in found.routes}
    assert sum(is_plan.values()) > len(is_plan) / 2
    walk = walk_of_dive(found, 60, np.random.default_rng(2))  # all are visible
    firsts = [walk[0], *walk[1:][walk[:-1] == 0]]
    kinds = [is_plan[node] for node in firsts]
    assert kinds == sorted(kinds, reverse=True)


def test_routes_begin_where_the_policy_looks() -> None:
    found, visible = dive(60, seed=5), 6
    far = ((found.sample.coords - found.sample.coords[0]) ** 2).sum(1)
    plans = find_kin(as_task(found.sample)).plans
    ends = {int(node) for node in plans.node[np.concatenate([plans.begin[:-1], plans.begin[1:] - 1])]}
    walk = walk_of_dive(found, visible, np.random.default_rng(2))
    open_, seen = set(range(1, 61)), 0
    begins = np.flatnonzero(np.r_[False, walk[:-1] == 0])
    for at in begins:
        open_ -= set(walk[:at].tolist())
        seen += far[walk[at]] <= sorted(far[list(open_)])[:visible][-1] or int(walk[at]) in ends
    assert seen == len(begins)


def test_a_lesson_of_dives() -> None:
    labels = Groups("cvrp", DataConfig(sizes="20", distribution="set_x", batch=2, dives=True), seed=0).labelled(0)
    again = Groups("cvrp", DataConfig(sizes="20", distribution="set_x", batch=2, dives=True), seed=0).labelled(0)
    assert [x.routes for x in labels] == [x.routes for x in again]
    lesson = make_lesson(labels, 3, np.random.default_rng(0), turn=False, visible=5)
    assert lesson.ends is None
    for kin, found in zip(kin_of(lesson.batch)[1], labels, strict=True):  # of what the policy sees
        assert kin.plans.node.tolist() == find_kin(as_task(found.sample)).plans.node.tolist()
    assert lesson.actions.shape[:2] == (2, 3)


def test_dives_need_a_policy_that_sees_plans() -> None:
    on = ["data.dives=true", "policy.kin=true"]
    assert load_config("imitate-cvrp", on).data.dives
    for name, fields in (
        ("imitate-cvrp", on[:1]),
        ("imitate-tsp", on),
        ("imitate-cvrp", [*on, 'data.labels=["x.npz"]']),
        ("imitate-cvrp", [*on, "train.method=reinforce"]),
        ("imitate-cvrp", [*on, "data.own=true", "train.init=x.safetensors"]),
    ):
        with pytest.raises(ValueError, match=r"data\.dives"):
            load_config(name, fields)
