"""Who may ask, and headers that keep browsers from doing what the page does not need."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elgo.serve.errors import Refused

_SELF = ("script-src", "style-src", "font-src", "connect-src", "manifest-src", "form-action")
_POLICY = [
    "default-src 'none'",
    *(f"{name} 'self'" for name in _SELF),
    "img-src 'self' data: blob:",
    "base-uri 'none'",
    "frame-ancestors 'none'",
]
_HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OPEN = "/health"  # needs no token


class Security:
    """Checks the token and where a request comes from; adds headers to every response."""

    def __init__(self, app: ASGIApp, token: str | None, origins: Sequence[str]) -> None:
        self.app, self.token, self.origins = app, token, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is allowed."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith(("/static/", "/docs/")):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        await (self.app if refused is None else refused.response())(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Refused | None:
        headers = Headers(scope=scope)
        if self.token is not None and scope["path"] != _OPEN and not _has_token(headers, self.token):
            return Refused(401, "the token is missing or wrong", headers={"WWW-Authenticate": 'Basic realm="elgo"'})
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and is_cross_site(headers, self.origins):
            return Refused(403, "the request comes from a page of another site")
        return None


def is_cross_site(headers: Headers, origins: Sequence[str]) -> bool:
    """True if a browser sends this for a page of another site that is not one of the origins."""
    origin = headers.get("origin")
    if origin in origins:
        return False
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


def _has_token(headers: Headers, token: str) -> bool:
    """True for `Bearer TOKEN`, and for Basic with TOKEN as the password, which browsers ask for."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    given = value.strip().encode("latin-1")  # as it was sent
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != "bearer":
        return False
    return secrets.compare_digest(given, token.encode())
