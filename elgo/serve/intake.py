"""Takes in requests to solve: reads the body, checks it, and puts the job into the store."""

from __future__ import annotations

import math
import secrets
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elgo.problem.errors import ElgoError
from elgo.problem.files.text import decode_text
from elgo.serve.errors import Refused, from_validation
from elgo.serve.limits import SMALL_NODES, SMALL_SECONDS, Bodies, Limits
from elgo.serve.models import Body, FileBody, JobBody, Options, StoredRequest
from elgo.serve.problems import Checked, check_request
from elgo.serve.runner import Runner
from elgo.serve.store import QueueFull

CHECKED_AT_ONCE = 2  # bodies that are parsed at the same time: it is all memory and processor
FILE_FIELDS = ("capacity", "vehicles", "depot", "open", "first", "last")
_TRUTH = {"true": True, "false": False}

B = TypeVar("B", bound=Body)


class Intake:
    """Accepts jobs as long as the limits allow it."""

    def __init__(self, runner: Runner, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self.bodies = Bodies(limits)
        self._parsing = CapacityLimiter(CHECKED_AT_ONCE)

    async def accept(self, request: Request, small: bool = False) -> str:
        """Return the id of the new job; Refused if there is something wrong with it, or too much to do.

        `small` is for those whose answer the client waits for.
        """
        stored = await self._read(request)
        return await run_sync(self._add, stored, small, limiter=self._parsing)

    async def read_json(self, request: Request, model: type[B]) -> B:
        """Return the body of a request."""
        body = await self.bodies.read(request)
        try:
            return await run_sync(_parse, body, model, limiter=self._parsing)
        finally:
            self.bodies.release(body)

    async def _read(self, request: Request) -> StoredRequest:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            body = await self.read_json(request, JobBody)
            return StoredRequest(instance=body.instance, options=body.options)
        if kind == "multipart/form-data":
            return await self._read_form(request)
        expected = "expected application/json or multipart/form-data"
        raise Refused(415, f"Content-Type is {kind[:40]!r}, {expected}", "Content-Type")

    async def _read_form(self, request: Request) -> StoredRequest:
        """Return the file and the options of a form."""
        body = await self.bodies.read(request)
        try:
            form = Request(request.scope, partial(_receive, body))
            async with form.form(
                max_files=1, max_fields=len(FILE_FIELDS) + 1, max_part_size=self.limits.max_body
            ) as fields:
                file, texts = _split_form(fields)
                data = await file.read()
            return await run_sync(_from_form, file.filename, data, texts, limiter=self._parsing)
        finally:
            self.bodies.release(body)

    def refusal(self) -> Refused | None:
        """Return the refusal of a new job if the queue is full; this takes no time."""
        return self._too_busy() if self.runner.store.waiting()[0] >= self.limits.max_queue else None

    def _too_busy(self) -> Refused:
        """Return a refusal until half of the queue will be done."""
        wait = min(60, max(1, math.ceil(self.runner.store.waiting()[1] / self.runner.workers / 2)))
        message = f"{self.limits.max_queue} jobs wait already; try again in {wait} s"
        return Refused(429, message, headers={"Retry-After": str(wait)})

    def _add(self, stored: StoredRequest, small: bool) -> str:
        checked = check_request(stored, self.limits)
        if small:
            _check_small(checked)
        instance, id = checked.problem.instance, secrets.token_hex(8)
        config, warnings = checked.config, checked.problem.warnings
        try:
            self.runner.store.add(
                id, stored, instance.name, instance.problem, instance.size, config.time_limit, warnings,
                self.limits.max_queue,
            )  # fmt: skip
        except QueueFull:
            raise self._too_busy() from None
        self.runner.wake()
        return id


class RefuseWhenFull:
    """Answers requests for new jobs with 429 while the queue is full, before anything of them is read."""

    def __init__(self, app: ASGIApp, intake: Intake) -> None:
        self.app, self.intake = app, intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may have a chance."""
        adds = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in ("/jobs", "/solve")
        refused = self.intake.refusal() if adds else None
        await (self.app if refused is None else refused.response())(scope, receive, send)


def _parse(body: bytes, model: type[B]) -> B:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error) from None


def _split_form(fields: FormData) -> tuple[UploadFile, dict[str, str]]:
    """Return the file and the other fields of a form; Refused for any that is unknown or sent twice."""
    file: UploadFile | None = None
    texts: dict[str, str] = {}
    for name, value in fields.multi_items():
        if name in texts or (name == "file" and file is not None):
            raise Refused(422, f"{name}: is sent twice", name)
        if name == "file" and isinstance(value, UploadFile):
            file = value
        elif name in ("options", *FILE_FIELDS) and isinstance(value, str):
            texts[name] = value
        else:
            raise Refused(422, f"{name[:40]}: expected file, options, {', '.join(FILE_FIELDS)}", name[:40])
    if file is None:
        raise Refused(422, "file: a problem file is missing", "file")
    return file, texts


def _from_form(name: str | None, data: bytes, texts: dict[str, str]) -> StoredRequest:
    """Return the request that a form makes."""
    try:
        if not name:
            raise ElgoError("the file has no name")
        text = decode_text(data)
    except ValueError as error:
        raise Refused(422, f"file: {error}", "file") from None
    try:
        options = Options.model_validate_json(texts.get("options") or "{}")
    except ValidationError as error:
        raise from_validation(error, "options") from None
    values: dict[str, object] = {"name": name, "text": text}
    for key in FILE_FIELDS:
        if key in texts:
            values[key] = _value(key, texts[key])
    try:
        return StoredRequest(file=FileBody.model_validate(values), options=options)
    except ValidationError as error:
        raise from_validation(error) from None


def _value(name: str, text: str) -> float | int | bool | str:
    """Return the value of a field of a form."""
    if name in ("depot", "first", "last"):
        return text
    try:
        return _TRUTH[text] if name == "open" else int(text) if name == "vehicles" else float(text)
    except (ValueError, KeyError):
        expected = "true or false" if name == "open" else "a number"
        raise Refused(422, f"{name} is {text[:40]!r}, expected {expected}", name) from None


def _check_small(checked: Checked) -> None:
    """Refuse what takes too long to wait for."""
    nodes, seconds = checked.problem.instance.size, checked.config.time_limit
    if nodes > SMALL_NODES:
        raise Refused(422, f"{nodes} nodes are more than the {SMALL_NODES} of POST /solve; use POST /jobs", "instance")
    if seconds is not None and seconds > SMALL_SECONDS:
        message = f"seconds is {seconds:g}, more than the {SMALL_SECONDS:g} of POST /solve; use POST /jobs"
        raise Refused(422, message, "options.seconds")


async def _receive(body: bytes) -> Message:
    """Send a body that was read already."""
    return {"type": "http.request", "body": body, "more_body": False}
