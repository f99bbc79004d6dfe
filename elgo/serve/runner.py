"""Feeds the pool of workers with jobs from the store, and stores what they find."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from threading import Event, Lock, RLock, Thread

import numpy as np

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.serve.errors import Refused
from elgo.serve.limits import Limits
from elgo.serve.models import State
from elgo.serve.problems import check_request
from elgo.serve.store import Change, Job, Store, StoreError
from elgo.solve.batch import share_resources
from elgo.solve.config import SolveConfig
from elgo.solve.pool import Job as PoolJob
from elgo.solve.pool import Pool
from elgo.solve.result import Improvement, Result

SAVE_SECONDS = 0.5  # between two writes of what running jobs have found
DELETE_SECONDS, DELETED = 600.0, 100  # between two looks for jobs that are too old, and most that are deleted at once
LOADING_SECONDS = 120.0  # for a policy to be loaded, or compiled the first time ever
LEAST_SECONDS = 0.05  # of a search that goes on after a restart
_ANY = Limits(max_seconds=1e12, max_nodes=10**12)  # jobs in the store were checked before

log = logging.getLogger("elgo")


@dataclass(eq=False)
class Running:
    """A job in the pool, or one that has left it and is not yet stored as ended."""

    job: Job
    history: list[Improvement] = field(default_factory=list)
    saved: int = 0  # improvements that the store has
    solution: Solution | None = None  # the best so far
    handle: PoolJob | None = None
    started: float | None = None  # Unix time at which a worker took it
    finished: float | None = None
    fraction: float = 0.0  # of the rollouts that are done
    loaded: float | None = None  # Unix time at which the first of them were
    stopped: bool = False
    late: bool = False  # it was stopped because it took too long
    fault: str | None = None  # why it cannot be given to a worker
    lock: Lock = field(default_factory=Lock)

    @property
    def seconds(self) -> float:
        """Seconds since a worker took it."""
        return 0.0 if self.started is None else max(0.0, (self.finished or time.time()) - self.started)

    @property
    def progress(self) -> float:
        """The fraction of the work that is done."""
        limit = self.job.seconds
        return self.fraction if limit is None else min(1.0, (self.job.spent + self.seconds) / limit)

    def best(self) -> tuple[Solution | None, list[Improvement]]:
        """Return the best solution so far and its history."""
        with self.lock:
            return self.solution, self.history.copy()

    def improve(self, found: Improvement, solution: Solution) -> None:
        """Take note of a better solution; one that goes on starts from its best, which is not better."""
        with self.lock:
            if not self.history or found.cost < self.history[-1].cost:
                self.solution = solution
                self.history.append(found._replace(seconds=self.job.spent + found.seconds))

    def change(self) -> Change:
        """Return what the store does not have yet."""
        solution, history = self.best()
        new = history[self.saved :]
        routes = solution.routes if new and solution is not None else None
        return Change(self.job.number, self.job.spent + self.seconds, self.started, new, routes)


@dataclass
class Totals:
    """What has happened since the start of the server."""

    states: Counter[str] = field(default_factory=Counter)  # of jobs that ended
    wait_seconds: float = 0.0  # of jobs that ended after a search
    late_seconds: float = 0.0  # beyond their time limits


class Runner:
    """As many jobs as there are workers are running; the others wait in the store."""

    def __init__(self, store: Store, workers: int, limits: Limits) -> None:
        self.store, self.workers, self.limits = store, workers, limits
        self.totals = Totals()
        self._running: dict[str, Running] = {}
        self._lock = RLock()
        self._wake = Event()
        self._closing = self._failing = False
        self._saved = 0.0
        self._deleted = -DELETE_SECONDS
        if interrupted := store.requeue_interrupted():
            log.info("%d interrupted jobs go on", interrupted)
        self._pool = Pool(workers, low_priority=True)
        for instance in _small_instances() * workers:  # so that the first jobs find the kernels loaded
            self._pool.submit(instance, SolveConfig(time_limit=0.01, threads=1))
        self._thread = Thread(target=self._run, name="runner", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for a new job now."""
        self._wake.set()

    def close(self) -> None:
        """Store what running jobs have found, and end the workers: the jobs go on after the next start."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        try:
            self._finish_ended()
            self._save(self._running.values())
        except StoreError as error:
            log.error("%s", error)
        self._pool.close()

    @property
    def running_count(self) -> int:
        """The number of running jobs."""
        return len(self._running)

    def running(self, id: str) -> Running | None:
        """Return the job if it is running."""
        return self._running.get(id)

    def stop(self, id: str) -> None:
        """End the search of a job, which keeps its best solution; nothing happens to one that has ended."""
        with self._lock:
            if self.store.stop_waiting(id):
                self.totals.states["stopped"] += 1
            elif running := self._running.get(id):
                running.stopped = True
                if running.handle is not None:
                    running.handle.stop()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(SAVE_SECONDS)
            self._wake.clear()
            try:
                self._finish_ended()
                self._stop_late()
                if time.monotonic() - self._saved >= SAVE_SECONDS:
                    self._save(self._running.values())
                self._start_waiting()
                self._delete_old()
                self._failing = False
            except Exception as error:  # what could not be stored is kept, and tried again
                if not self._failing:
                    log.error("%s", error, exc_info=not isinstance(error, StoreError))
                self._failing = True
                time.sleep(SAVE_SECONDS)

    def _start_waiting(self) -> None:
        while not self._closing and len(self._running) < self.workers:
            with self._lock:
                job = self.store.claim()
                if job is None:
                    return
                running = self._running[job.id] = Running(job)
            try:
                self._submit(running)
            except (Refused, ValueError, StoreError) as error:  # what is stored is damaged, or of an older version
                running.fault, running.finished = str(error), time.time()
                self._wake.set()

    def _submit(self, running: Running) -> None:
        job = running.job
        running.history = self.store.improvements(job.number)
        running.saved = len(running.history)
        checked = check_request(self.store.request(job.number), _ANY)
        instance, warm_start = checked.problem.instance, checked.warm_start
        config = share_resources(replace(checked.config, time_limit=job.seconds), self.workers)
        routes = self.store.routes(job.number)
        if routes is not None:  # it was interrupted
            running.solution = Solution(instance, routes)
            if job.seconds is not None:
                warm_start = running.solution
                config = replace(config, start=None, time_limit=max(LEAST_SECONDS, job.seconds - job.spent))

        def begin() -> None:
            running.started = time.time()

        def advance(fraction: float) -> None:
            running.fraction = fraction
            running.loaded = running.loaded or time.time()

        def end(_: object) -> None:
            running.finished = time.time()
            self._wake.set()

        handle = self._pool.submit(
            instance, config, warm_start, on_start=begin, on_improvement=running.improve, on_progress=advance
        )
        handle.future.add_done_callback(end)
        with self._lock:
            running.handle = handle
            if running.stopped:
                handle.stop()

    def _delete_old(self) -> None:
        """Delete jobs that ended too long ago."""
        if time.monotonic() - self._deleted >= DELETE_SECONDS:
            before = time.time() - self.limits.keep_days * 86_400
            if self.store.delete_ended(before, DELETED) < DELETED:
                self._deleted = time.monotonic()

    def _stop_late(self) -> None:
        """Stop policies that take too long; a search ends by itself."""
        for running in self._running.values():
            if running.job.seconds is None and running.started is not None and running.handle is not None:
                begin = running.loaded or running.started + LOADING_SECONDS
                if time.time() - begin > self.limits.max_seconds:
                    running.late = True
                    running.handle.stop()

    def _finish_ended(self) -> None:
        for running in list(self._running.values()):
            if running.fault is not None:
                self._end(running, "failed", (), running.fault)
            if running.handle is None or running.finished is None:
                continue
            try:
                self._end(running, *self._outcome(running, running.handle.future.result()))
            except CancelledError:
                if running.late:
                    self._end(running, "failed", (), self._too_late())
                elif running.stopped:
                    self._end(running, "stopped", (), None)
            except StoreError:
                raise
            except Exception as error:
                self._end(running, "failed", (), str(error))

    def _outcome(self, running: Running, result: Result) -> tuple[State, tuple[str, ...], str | None]:
        """Return the state, warnings and the error of a job that has a result."""
        running.improve(Improvement(result.seconds.total, result.cost, result.source), result.solution)
        if violations := result.solution.violations:
            return "failed", result.warnings, f"the solution is infeasible: {violations[0]}"
        warnings = (*result.warnings, self._too_late()) if running.late else result.warnings
        return "stopped" if result.interrupted else "finished", warnings, None

    def _too_late(self) -> str:
        return f"policy_only was not ready within {self.limits.max_seconds:g} s"

    def _end(self, running: Running, state: State, warnings: tuple[str, ...], error: str | None) -> None:
        job, finished = running.job, running.finished or time.time()
        self.store.finish(running.change(), finished, state, (*job.warnings, *warnings), error)
        with self._lock:
            del self._running[job.id]
        self.totals.states[state] += 1
        if state == "finished" and job.seconds is not None and running.started is not None and not job.spent:
            self.totals.wait_seconds += running.started - job.created
            self.totals.late_seconds += max(0.0, running.seconds - job.seconds)

    def _save(self, jobs: Iterable[Running]) -> None:
        changes = [(running, running.change()) for running in jobs if running.started is not None]
        if changes:
            self.store.save([change for _, change in changes])
        for running, change in changes:
            running.saved += len(change.improvements)
        self._saved = time.monotonic()


def _small_instances() -> list[Instance]:
    """Return a TSP and a CVRP, whose solving loads the kernels."""
    coords = np.random.default_rng(0).random((12, 2))
    demand = np.ones(12)
    demand[0] = 0
    return [
        Instance("warm-up", coords, Metric.EXACT),
        Instance("warm-up", coords, Metric.EXACT, demand=demand, capacity=5.0),
    ]
