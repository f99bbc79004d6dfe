"""The endpoints of the service."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Literal

import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from elgo import __version__
from elgo.problem.generate import generate
from elgo.serve.errors import Refused, answer_http, answer_invalid, answer_refused
from elgo.serve.events import job_events
from elgo.serve.intake import FILE_FIELDS, Intake, RefuseWhenFull
from elgo.serve.limits import Limits
from elgo.serve.metrics import CountResponses, metrics_text
from elgo.serve.models import (
    CreatedView,
    ErrorView,
    GenerateBody,
    GeneratedView,
    HealthView,
    InstanceBody,
    JobBody,
    JobView,
    SummaryView,
    TraceView,
)
from elgo.serve.runner import Runner
from elgo.serve.security import Security
from elgo.serve.store import StoreError
from elgo.serve.trace import trace_construction
from elgo.serve.views import Jobs

HERE = Path(__file__).parent
STOP_SECONDS = 5.0  # that DELETE waits for the job to end
SOLVE_EXTRA_SECONDS = 30.0  # that POST /solve waits beyond the time limit
POLL_SECONDS = 0.05

Limit = Annotated[int, Query(ge=1, le=1000, description="How many jobs.")]
Start = Annotated[int | None, Query(description="Node at which the construction begins.")]
Suffix = Literal["sol", "geojson", "csv", "json"]
_Described = dict[int | str, dict[str, Any]]
_ERRORS: _Described = {422: {"model": ErrorView, "description": "What is wrong, and the field."}}
_NOT_FOUND: _Described = {
    **_ERRORS,
    404: {"model": ErrorView, "description": "There is no such job."},
}
_REFUSALS: _Described = {
    **_ERRORS,
    **{status: {"model": ErrorView} for status in (400, 408, 413, 415)},
    429: {"model": ErrorView, "description": "Too many jobs wait; Retry-After says for how long."},
    507: {"model": ErrorView, "description": "The store cannot be written."},
}


def create_app(
    runner: Runner,
    limits: Limits,
    token: str | None = None,
    origins: Sequence[str] = (),
    closing: Event | None = None,
) -> FastAPI:
    """Return the service. When `closing` is set, clients that wait are answered at once."""
    app = FastAPI(
        title="elgo",
        version=__version__,
        description="Solves TSP and CVRP.",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(_refuse_unknown_parameters)],
    )
    responses: Counter[int] = Counter()
    for error, answer in (
        (Refused, answer_refused),
        (RequestValidationError, answer_invalid),
        (HTTPException, answer_http),
        (StoreError, _answer_store_error),
    ):
        app.add_exception_handler(error, answer)
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST", "DELETE"], allow_headers=["*"]
        )
    intake = Intake(runner, limits)
    app.add_middleware(RefuseWhenFull, intake=intake)
    app.add_middleware(Security, token=token, origins=origins)
    app.add_middleware(CountResponses, counts=responses)
    jobs, closing = Jobs(runner), closing or Event()
    _add_solving(app, jobs, runner, intake, closing)
    _add_reading(app, jobs, runner, closing)
    _add_others(app, runner, responses, token is not None)
    _add_pages(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _add_solving(app: FastAPI, jobs: Jobs, runner: Runner, intake: Intake, closing: Event) -> None:
    """Add the endpoints that take in jobs."""

    @app.post("/jobs", status_code=202, responses=_REFUSALS, openapi_extra=_body("JobBody", form=True))
    async def submit(request: Request) -> CreatedView:
        """Add a job. Its body is JSON, or a form with a file (TSPLIB, CVRPLIB or CSV) and `options` as JSON."""
        return await _created(await intake.accept(request))

    @app.post(
        "/solve",
        responses={**_REFUSALS, 202: {"model": CreatedView, "description": "It takes longer; see GET /jobs/ID."}},
        response_model=JobView,
        openapi_extra=_body("JobBody", form=True),
    )
    async def solve(request: Request) -> Any:
        """Solve a small instance: as POST /jobs, but the answer is the finished job."""
        id = await intake.accept(request, small=True)
        seconds = (await run_sync(jobs.find, id)).seconds or intake.limits.max_seconds
        ended = await _wait_for_end(jobs, runner, id, seconds + SOLVE_EXTRA_SECONDS, closing, request)
        return await run_sync(jobs.view_json, id) if ended else await _created(id)

    @app.post("/generate", responses=_REFUSALS, openapi_extra=_body("GenerateBody"))
    async def random_instance(request: Request) -> GeneratedView:
        """Return a random instance."""
        return await run_sync(_generate, await intake.read_json(request, GenerateBody))


def _add_reading(app: FastAPI, jobs: Jobs, runner: Runner, closing: Event) -> None:
    """Add the endpoints that show and stop jobs."""

    @app.get("/jobs", responses=_ERRORS)
    def latest(limit: Limit = 50) -> list[SummaryView]:
        """Return the latest jobs, newest first."""
        return [jobs.summary(job) for job in runner.store.latest(limit)]

    @app.get("/jobs/{id}", response_model=JobView, responses=_NOT_FOUND)
    def job(id: str) -> Any:
        """Return a job with the best solution so far and its history."""
        return jobs.view_json(id)

    @app.get(
        "/jobs/{id}/events",
        response_class=StreamingResponse,
        responses={**_NOT_FOUND, 200: {"content": {"text/event-stream": {}}}},
    )
    async def events(id: str) -> StreamingResponse:
        """Stream server-sent events: improved, progress, end."""
        await run_sync(jobs.find, id)
        headers = {"X-Accel-Buffering": "no"}  # or nginx would collect them
        stream = job_events(jobs, runner, id, closing)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    @app.delete("/jobs/{id}", response_model=JobView, responses=_NOT_FOUND)
    async def stop(id: str, request: Request) -> Any:
        """Stop a job, which keeps its best solution."""
        await run_sync(jobs.find, id)
        await run_sync(runner.stop, id)
        await _wait_for_end(jobs, runner, id, STOP_SECONDS, closing, request)
        return await run_sync(jobs.view_json, id)

    @app.get("/jobs/{id}/solution.{suffix}", response_class=Response, responses=_NOT_FOUND)
    def solution(id: str, suffix: Suffix) -> Response:
        """Return the best solution so far as a file: TSPLIB or CVRPLIB, GeoJSON, a table of stops, or JSON."""
        file = jobs.export(id, suffix)
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return Response(file.text, media_type=file.media_type, headers=headers)

    one_at_a_time = CapacityLimiter(1)  # or many of them would keep all threads, and all other requests would wait

    @app.get("/jobs/{id}/trace", responses=_NOT_FOUND)
    async def trace(id: str, start: Start = None) -> TraceView:
        """Return every step of one greedy construction by the policy, with the scores of its parts."""
        return await run_sync(_trace, jobs, id, start, limiter=one_at_a_time)


def _add_others(app: FastAPI, runner: Runner, responses: Counter[int], token: bool) -> None:
    """Add the endpoints that watch the service."""

    @app.get("/health")
    async def health() -> HealthView:
        """Return that the service answers; needs no token."""
        waiting, _ = runner.store.waiting()
        return HealthView(version=__version__, workers=runner.workers, waiting=waiting, token=token)

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Return counters for Prometheus."""
        return PlainTextResponse(metrics_text(runner, responses), media_type="text/plain; version=0.0.4")


def _add_pages(app: FastAPI) -> None:
    """Add the page, and the description of the endpoints."""
    app.mount("/docs/files", StaticFiles(directory=HERE / "swagger"), name="swagger")

    @app.get("/docs", include_in_schema=False)
    def docs() -> FileResponse:
        return FileResponse(HERE / "swagger" / "index.html")

    app.mount("/static/leaflet", StaticFiles(directory=HERE.parent / "view" / "leaflet"), name="leaflet")
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(HERE / "static" / "index.html")


async def _created(id: str) -> Any:
    return JSONResponse(CreatedView(id=id).model_dump(), 202, {"Location": f"/jobs/{id}"})


async def _wait_for_end(jobs: Jobs, runner: Runner, id: str, seconds: float, closing: Event, request: Request) -> bool:
    """Return True when the job has ended; False after so many seconds, or if the client or the server goes away."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not closing.is_set() and not await request.is_disconnected():
        if runner.running(id) is None and (await run_sync(jobs.find, id)).finished is not None:
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False


def _trace(jobs: Jobs, id: str, start: int | None) -> TraceView:
    asked = jobs.asked(jobs.find(id).number)
    return trace_construction(asked.problem.instance, asked.options.model or asked.options.start or "elg", start)


def _generate(body: GenerateBody) -> GeneratedView:
    try:
        task = generate(np.random.default_rng(body.seed), body.problem, body.size, body.distribution)
    except ValueError as error:
        raise Refused(422, str(error), "distribution") from None
    name = f"{body.distribution}-{body.problem}-{body.size}-{body.seed}"
    demand = None if task.demand is None else task.demand.astype(float).tolist()
    capacity = None if task.capacity is None else float(task.capacity)
    coordinates = [(x, y) for x, y in task.coords.tolist()]
    return GeneratedView(instance=InstanceBody(name=name, coordinates=coordinates, demand=demand, capacity=capacity))


async def _answer_store_error(request: Request, error: Exception) -> JSONResponse:
    return Refused(507, str(error)).response()


async def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse what would be ignored."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    for name, _ in request.query_params.multi_items():
        if name not in known:
            raise Refused(422, f"{name[:40]}: unknown parameter, or sent twice", name[:40])
        known.remove(name)


def _body(model: str, form: bool = False) -> dict[str, Any]:
    """Return the part of an endpoint's description that is about its body."""
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}}
    if form:
        texts = {name: {"type": "string"} for name in ("options", *FILE_FIELDS)}
        file = {"file": {"type": "string", "format": "binary"}}
        schema = {"type": "object", "properties": file | texts, "required": ["file"], "additionalProperties": False}
        content["multipart/form-data"] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the description of all endpoints; bodies are read by our own code, so FastAPI does not know them."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        bodies = [(model, "validation") for model in (JobBody, GenerateBody)]
        _, found = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
        schema["components"]["schemas"].update(found["$defs"])
        app.openapi_schema = schema
    return app.openapi_schema
