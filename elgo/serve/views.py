"""Jobs as responses: JSON for pages and programs, and files to download."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from fastapi import Response

from elgo.problem.errors import ElgoError
from elgo.problem.files.csv import ProblemFile
from elgo.problem.files.solutions import format_sol, format_tour
from elgo.problem.itinerary import itineraries
from elgo.problem.solution import Solution, gap
from elgo.serve.errors import Refused
from elgo.serve.models import InstanceView, JobView, Options, SolutionView, SummaryView
from elgo.serve.problems import make_problem, vehicles_of
from elgo.serve.runner import Runner
from elgo.serve.store import Job
from elgo.solve.result import Improvement, shown_source
from elgo.view.routes import format_geojson, format_routes

KEPT_NODES = 200_000  # of the problems that were read last
KEPT_SOLUTIONS = 64


@dataclass(frozen=True)
class Export:
    """A file to download."""

    name: str
    media_type: str
    text: str


class Asked(NamedTuple):
    """What a job is about."""

    problem: ProblemFile
    options: Options
    instance: InstanceView


class Jobs:
    """Reads jobs, whether they are running or only in the store."""

    def __init__(self, runner: Runner) -> None:
        self._runner, self._store = runner, runner.store
        self._kept: OrderedDict[int, Asked] = OrderedDict()
        self._lock = Lock()

    def find(self, id: str) -> Job:
        """Return the job with this id; Refused if there is none."""
        job = self._store.job(id)
        if job is None:
            raise Refused(404, f"there is no job {id[:40]!r}", "id")
        return job

    def best(self, id: str) -> tuple[Job, Solution | None, list[Improvement]]:
        """Return a job, its best solution so far and the history of it."""
        running = self._runner.running(id)  # before the job: if it ends in between, the store has the rest
        job = self.find(id)
        if running is not None and job.state == "running":
            solution, history = running.best()
            if solution is not None or not history:
                return job, solution, history
        routes = self._store.routes(job.number)
        solution = None if routes is None else Solution(self.asked(job.number).problem.instance, routes)
        return job, solution, self._store.improvements(job.number)

    def summary(self, job: Job) -> SummaryView:
        """Return a job as a row of the list."""
        running = self._runner.running(job.id)
        cost, started = job.cost, job.started
        if running is not None:
            history = running.best()[1]
            cost = history[-1].cost if history else cost
            started = running.started if started is None else started
        return SummaryView(
            id=job.id,
            name=job.name,
            problem=job.problem,
            nodes=job.nodes,
            state=job.state,
            cost=cost,
            created=_time(job.created) or "",
            started=_time(started),
            finished=_time(job.finished),
            seconds=job.seconds,
        )

    def view_json(self, id: str) -> Response:
        """Return a job with its best solution so far as a response: a JobView, which needs no checks."""
        return Response(self.view(id).model_dump_json(), media_type="application/json")

    def view(self, id: str) -> JobView:
        """Return a job with its best solution so far."""
        job, solution, history = self.best(id)
        asked = self.asked(job.number)
        return JobView(
            **self.summary(job).model_dump(),
            error=job.error,
            options=asked.options,
            instance=asked.instance,
            solution=None if solution is None else solution_view(solution, history[-1].source),
            history=[tuple(improvement) for improvement in history],  # type: ignore[misc]
            warnings=list(job.warnings),
            unit=asked.problem.instance.metric.unit,
        )

    def export(self, id: str, suffix: str) -> Export:
        """Return the best solution so far as a file."""
        job, solution, history = self.best(id)
        if solution is None:
            raise Refused(404, f"job {id} has no solution yet")
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", job.name)[:80] or "solution"
        if suffix == "sol":
            kind, write = ("tour", format_tour) if job.problem == "tsp" else ("sol", format_sol)
            return Export(f"{stem}.{kind}", "text/plain", write(solution))
        stops = self.asked(job.number).problem.stops
        if suffix == "csv":
            return Export(f"{stem}.routes.csv", "text/csv", format_routes(solution, stops))
        if suffix == "geojson":
            try:
                return Export(f"{stem}.geojson", "application/geo+json", format_geojson(solution, stops))
            except ElgoError as error:
                raise Refused(422, str(error)) from None
        view = solution_view(solution, history[-1].source)
        return Export(f"{stem}.json", "application/json", view.model_dump_json())

    def asked(self, number: int) -> Asked:
        """Return what a job is about. Those that were asked for last are kept, up to KEPT_NODES nodes in all."""
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        request = self._store.request(number)
        problem = make_problem(request)
        asked = Asked(problem, request.options, _instance_view(problem, vehicles_of(request)))
        with self._lock:
            self._kept[number] = asked
            while len(self._kept) > 1 and sum(each.problem.instance.size for each in self._kept.values()) > KEPT_NODES:
                self._kept.popitem(last=False)
        return asked


@lru_cache(KEPT_SOLUTIONS)
def solution_view(solution: Solution, source: str) -> SolutionView:
    """Return a solution with the load and the length of each route."""
    routes = itineraries(solution)
    return SolutionView(
        cost=solution.cost,
        gap=gap(solution.cost, solution.instance.best_known),
        routes=[list(route) for route in solution.routes],
        loads=None if solution.instance.problem == "tsp" else [route.load for route in routes],
        lengths=[route.cost for route in routes],
        source=shown_source(source),
    )


def _time(seconds: float | None) -> str | None:
    """Return a Unix time in ISO 8601."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _instance_view(problem: ProblemFile, vehicles: int | None) -> InstanceView:
    instance, degrees = problem.instance, problem.stops.degrees
    coords = instance.coords if degrees is None else degrees
    return InstanceView(
        coordinates=coords.tolist() if instance.has_coords else None,
        latlon=degrees is not None,
        names=list(problem.stops.names) if any(problem.stops.names) else None,
        demand=None if instance.demand is None else instance.demand.tolist(),
        capacity=instance.capacity,
        vehicles=vehicles,
        best_known=instance.best_known,
        open=instance.open,
        first=instance.first,
        last=instance.last,
    )
