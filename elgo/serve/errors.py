"""Requests that are refused, and how that is answered: one line and the field that it is about."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException


class Refused(Exception):
    """A request that gets a 4xx status (507 if the store is full)."""

    def __init__(self, status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.field, self.headers = status, message, field, headers

    def response(self) -> JSONResponse:
        """Return the answer."""
        content = {"error": " ".join(self.message.split()), "field": self.field}
        return JSONResponse(content, self.status, dict(self.headers or {}))


def from_validation(error: ValidationError | RequestValidationError, prefix: str = "") -> Refused:
    """Return the refusal of a body or a query: the first thing that is wrong, with its place."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    field = ".".join([prefix, *place] if prefix else place)
    names = [part for part in field.split(".") if not part.isdigit()]
    message = f"{field}: {first['msg']}" if field else first["msg"]
    return Refused(422, message, ".".join(names) or None)


async def answer_refused(request: Request, error: Exception) -> JSONResponse:
    """Answer a refused request."""
    assert isinstance(error, Refused)
    return error.response()


async def answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """Answer a request with a wrong parameter."""
    assert isinstance(error, RequestValidationError)
    return from_validation(error).response()


async def answer_http(request: Request, error: Exception) -> JSONResponse:
    """Answer a request for what is not there, or with a wrong method."""
    assert isinstance(error, HTTPException)
    return Refused(error.status_code, f"{request.url.path}: {error.detail}", None, error.headers).response()
