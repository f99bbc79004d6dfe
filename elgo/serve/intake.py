"""Takes in requests to solve: reads the body, checks it, and puts the job into the store."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
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

CHECKED_AT_ONCE = 2  # bodies that are parsed at the same time: it is all memory and processor
MOST_KEYS = 100  # of a body: far more than there are
_JSON, _FORM = "application/json", "multipart/form-data"
FILE_FIELDS = ("capacity", "vehicles", "depot", "open", "first", "last")
_STRINGS = re.compile(rb'("(?:[^"\\]|\\.)*+")(\s*:)?')  # of JSON; those before a colon are keys
_TRUTH = {"true": True, "false": False}

B = TypeVar("B", bound=Body)


class Intake:
    """Accepts jobs as long as the limits allow it."""

    def __init__(self, runner: Runner, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self.bodies = Bodies(limits)
        self._parsing = CapacityLimiter(CHECKED_AT_ONCE)
        self._checking = 0  # jobs that have arrived, and are not yet in the store or refused

    async def accept(self, request: Request, small: bool = False) -> str:
        """Return the id of the new job; Refused if there is something wrong with it, or too much to do.

        `small` is for those whose answer the client waits for.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (_JSON, _FORM):
            raise Refused(415, f"Content-Type is {kind[:40]!r}, expected {_JSON} or {_FORM}", "Content-Type")
        body = await self.bodies.read(request)
        try:
            with self._place():
                parse = partial(_from_json, body) if kind == _JSON else await self._read_form(request, body)
                return await run_sync(self._add, parse, small, limiter=self._parsing)
        finally:
            self.bodies.release(body)

    async def read_json(self, request: Request, model: type[B]) -> B:
        """Return the body of a request."""
        body = await self.bodies.read(request)
        try:
            return await run_sync(_parse, body, model, limiter=self._parsing)
        finally:
            self.bodies.release(body)

    async def _read_form(self, request: Request, body: bytes) -> Callable[[], StoredRequest]:
        """Return what makes a request of the file and the options of a form."""
        form = Request(request.scope, partial(_receive, body))
        async with form.form(
            max_files=1, max_fields=len(FILE_FIELDS) + 1, max_part_size=self.limits.max_body
        ) as fields:
            file, texts = _split_form(fields)
            return partial(_from_form, file.filename, await file.read(), texts)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Keep a place in the queue for a job that is being checked; Refused if there is none.

        The service has one event loop, and only that calls this: there are never more jobs than places.
        """
        if refused := self.refusal():
            raise refused
        self._checking += 1
        try:
            yield
        finally:
            self._checking -= 1

    def refusal(self) -> Refused | None:
        """Return the refusal of a new job if the queue is full; this takes no time."""
        waiting, seconds = self.runner.store.waiting()
        if waiting + self._checking < self.limits.max_queue:
            return None
        wait = min(60, max(1, math.ceil(seconds / self.runner.workers / 2)))  # until half of the queue will be done
        message = f"{self.limits.max_queue} jobs wait already; try again in {wait} s"
        return Refused(429, message, headers={"Retry-After": str(wait)})

    def _add(self, parse: Callable[[], StoredRequest], small: bool) -> str:
        stored = parse()
        checked = check_request(stored, self.limits)
        if small:
            _check_small(checked)
        instance, id = checked.problem.instance, secrets.token_hex(8)
        seconds, warnings = checked.config.time_limit, checked.problem.warnings
        self.runner.store.add(id, stored, instance.name, instance.problem, instance.size, seconds, warnings)
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


def _parse(body: bytes, model: type[B], place: str = "") -> B:
    """Return what a JSON text says; Refused if it is wrong, or has a key twice, of which one would be ignored."""
    if body.count(b":") > MOST_KEYS and len(list(islice(_keys(body), MOST_KEYS + 1))) > MOST_KEYS:
        raise Refused(422, f"the JSON has more than {MOST_KEYS} keys")  # each unknown one would take memory
    try:
        parsed = model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error, place) from None
    for key, count in Counter(map(json.loads, _keys(body))).items():  # no two objects of a body have keys in common
        if count > 1:
            raise Refused(422, f"{key}: is sent twice", key)
    return parsed


def _keys(body: bytes) -> Iterator[bytes]:
    """Yield the keys of all objects of a JSON text, in quotes."""
    return (match[1] for match in _STRINGS.finditer(body) if match[2])


def _from_json(body: bytes) -> StoredRequest:
    """Return the request that a JSON body makes."""
    job = _parse(body, JobBody)
    return StoredRequest(instance=job.instance, options=job.options)


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
    options = _parse((texts.get("options") or "{}").encode(), Options, "options")
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
