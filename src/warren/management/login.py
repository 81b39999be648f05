"""Who asks: by name and password with every request, or by a session's cookie; and POST /api/login, /api/logout."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from warren.broker.rules.access import User, is_loopback
from warren.management.refusals import Refusal, bad_request, not_authorised
from warren.management.sessions import COOKIE, CSRF_HEADER, IDLE_MS, LoginSession

if TYPE_CHECKING:
    from warren.management.calls import Context

log = logging.getLogger("warren.management")
SAFE: Final = ("GET", "HEAD")
# What a form of any page can send without asking first; the third, which curl says by itself, has to be taken.
_FORMS: Final = ("text/plain", "multipart/form-data")


async def user_of(request: Request, context: Context) -> User:
    """Whoever sends this request, proven; a refusal otherwise."""
    if "authorization" in request.headers:
        return await check_password(request, context, *credentials_of(request))
    session = session_of(request, context)
    if session is None:
        raise not_authorised("Login failed")
    if request.method not in SAFE:
        check_csrf(request, session)
    user = context.sessions.user_of(session)
    assert user is not None
    return user


def check_origin(request: Request) -> None:
    """A browser that knows a password sends it with whatever any page asks of it, and says which page that was."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None:
        # Behind a proxy our name may be another; no page can set that header without asking first.
        ours = (headers.get("host"), headers.get("x-forwarded-host"))
        if origin.partition("://")[2].lower() not in [each.lower() for each in ours if each]:
            raise Refusal(403, "csrf", f"a change must come from a page of this broker, not of {origin}")
    elif headers.get("sec-fetch-site") == "cross-site":
        raise Refusal(403, "csrf", "a change must come from a page of this broker")
    if headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS:
        raise Refusal(415, "unsupported_media_type", "a change is sent as application/json")


def session_of(request: Request, context: Context) -> LoginSession | None:
    token = request.cookies.get(COOKIE)
    return None if token is None else context.sessions.find(token, int(context.node.now))


def check_csrf(request: Request, session: LoginSession) -> None:
    """A browser sends the cookie with whatever any page asks of it; only our own page knows this header's value."""
    given = request.headers.get(CSRF_HEADER, "")
    if not secrets.compare_digest(given.encode(), session.csrf_token.encode()):
        raise Refusal(403, "csrf", f"a change made with a session needs the header {CSRF_HEADER}: see GET /api/login")


async def check_password(request: Request, context: Context, name: str, password: str) -> User:
    node = context.node
    peer = request.client.host if request.client is not None else ""
    user = node.access.users.get(name)
    algorithm, password_hash = ("", "") if user is None else (user.hashing_algorithm, user.password_hash)
    if node.host.remembers_password(algorithm, password_hash, password):
        is_right = True
        node.logins.counted("http", True)
    else:
        is_right = await _try_password(context, peer, name, (algorithm, password_hash, password))
    if user is None or not is_right:
        log.warning("%s: HTTP login refused: user '%s' - invalid credentials", peer, name)
        raise Refusal(401, "not_authorized", "Login failed")
    if name in node.settings.loopback_users and not is_loopback(peer):
        raise not_authorised("User can only log in via localhost")
    return user


async def _try_password(context: Context, peer: str, name: str, attempt: tuple[str, str, str]) -> bool:
    node = context.node
    wait = node.logins.begin(peer, name, node.now)
    if wait > 0:
        raise Refusal(429, "too_many_failed_logins", f"too many failed logins from {peer}: wait {-(-wait // 1000)} s")
    is_right = False
    try:
        # Asked also about nobody, so that an unknown user takes as long as a wrong password.
        is_right = await context.verify_password(peer, *attempt)
    finally:
        node.logins.noted("http", peer, name, is_right, node.now)
    return is_right


def credentials_of(request: Request) -> tuple[str, str]:
    kind, _, encoded = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        raise not_authorised("Login failed")
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise not_authorised("Login failed") from None
    return name, password


def credentials_in(content_type: str, data: bytes) -> tuple[str, str]:
    """Of a login form, or of the same as JSON."""
    try:
        if content_type.startswith("application/x-www-form-urlencoded"):
            fields: dict[str, Any] = {name: values[0] for name, values in parse_qs(data.decode()).items()}
        else:
            fields = json.loads(data)
        name, password = fields["username"], fields["password"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise bad_request("username and password are needed, as JSON or as a form") from None
    if not isinstance(name, str) or not isinstance(password, str):
        raise bad_request("username and password must be text")
    return name, password


def session_answer(user: User, session: LoginSession) -> Response:
    return JSONResponse({"name": user.name, "tags": user.tags, "csrf_token": session.csrf_token})


def begin_session(request: Request, context: Context, user: User) -> Response:
    token, session = context.sessions.begin(user, int(context.node.now))
    response = session_answer(user, session)
    is_encrypted = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, token, max_age=IDLE_MS // 1000, path="/", httponly=True, samesite="strict", secure=is_encrypted
    )
    return response


def end_session(request: Request, context: Context) -> Response:
    token = request.cookies.get(COOKIE)
    if token is not None:
        context.sessions.end(token)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response
