"""The store: an order of jobs, a bound of those that wait, and what is kept of their solutions."""

from __future__ import annotations

from pathlib import Path

from elgo.serve.models import InstanceBody, Options, StoredRequest
from elgo.serve.store import Change, Store
from elgo.solve.result import Improvement

REQUEST = StoredRequest(instance=InstanceBody.model_validate_json('{"matrix": [[0, 1], [1, 0]]}'), options=Options())


def add(store: Store, id: str) -> None:
    """Add a job."""
    store.add(id, REQUEST, "name", "tsp", 2, 5.0, ["warned"])


def test_jobs_are_claimed_in_order_and_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "folder" / "jobs.sqlite")
    for id in "abc":
        add(store, id)
    assert store.stop_waiting("b")
    assert not store.stop_waiting("b")
    assert [job and job.id for job in (store.claim(), store.claim(), store.claim())] == ["a", "c", None]
    assert [(job.id, job.state) for job in store.latest(2)] == [("c", "running"), ("b", "stopped")]


def test_old_jobs_are_deleted_but_never_the_newest_or_those_that_have_not_ended(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    for id in "abcde":
        add(store, id)
    for finished in (100.0, 200.0, 300.0):
        job = store.claim()
        assert job is not None
        store.save([Change(job.number, 1.0, 1.0, [Improvement(0.1, 9.0, "search")], ((0, 1),))])
        store.finish(Change(job.number, 1.0, None), finished, "finished", (), None)
    assert store.claim() is not None
    assert store.delete_ended(250.0, most=1) == 1
    assert [job.id for job in store.latest(9)] == ["e", "d", "c", "b"]
    assert store.improvements(1) == []
    assert store.delete_ended(1e12, most=9) == 2
    assert [(job.id, job.state) for job in store.latest(9)] == [("e", "waiting"), ("d", "running")]
    assert store.stop_waiting("e")
    assert store.delete_ended(1e12, most=9) == 0  # or its number would be given again
    assert store.waiting() == (0, 0)


def test_what_waits_is_known_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    for id in "ab":
        add(store, id)
    job = store.claim()
    assert job is not None
    store.save([Change(job.number, 2.0, 1.0)])
    store.close()
    store = Store(tmp_path / "jobs.sqlite")
    assert store.waiting() == (1, 5.0)
    store.requeue_interrupted()
    assert store.waiting() == (2, 8.0)  # 2 s of one job are spent


def test_what_is_saved_is_there_in_the_next_server(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    add(store, "a")
    job = store.claim()
    assert job is not None
    store.save([Change(job.number, 1.0, 100.0, [Improvement(0.1, 9.0, "fallback")], ((0, 1),))])
    store.save([Change(job.number, 2.0, 200.0, [Improvement(0.5, 8.0, "search")], ((1, 0),))])
    store.close()
    store = Store(tmp_path / "jobs.sqlite")
    assert store.requeue_interrupted() == 1
    job = store.claim()
    assert job is not None
    assert (job.spent, job.started, job.cost, job.warnings) == (2.0, 100.0, 8.0, ("warned",))
    assert store.routes(job.number) == ((1, 0),)
    assert [found.cost for found in store.improvements(job.number)] == [9.0, 8.0]
    assert store.request(job.number) == REQUEST
    store.finish(Change(job.number, 3.0, None), 300.0, "failed", (), "why")
    ended = store.job("a")
    assert ended is not None
    assert (ended.state, ended.error, ended.finished) == ("failed", "why", 300.0)
    assert store.requeue_interrupted() == 0
    assert store.job("b") is None
