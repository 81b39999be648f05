"""/api/login, /api/logout and /api/auth: logging in for longer than one request, and how logins went."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from warren.management.calls import Call, Context, Needs, check_tag, done, open_route, read_body, route
from warren.management.login import (
    begin_session,
    check_origin,
    check_password,
    credentials_in,
    end_session,
    session_answer,
    session_of,
)
from warren.management.overview import check_own_name
from warren.management.refusals import not_authorised
from warren.management.spec import FLAG, NUMBER, TEXT, TEXTS, gives, list_of, takes, whole

# Of a login: nobody has proven anything yet, so it is not as much as others may send.
LOGIN_BYTES: Final = 4096
_SESSION: Final = whole(name=TEXT, tags=TEXTS, csrf_token=TEXT)
_ATTEMPTS: Final = list_of(
    whole(protocol=TEXT, auth_attempts=NUMBER, auth_attempts_failed=NUMBER, auth_attempts_succeeded=NUMBER)
)


@takes("username", "password", username=TEXT, password=TEXT)
@gives({200: _SESSION})
async def log_in(request: Request, context: Context) -> Response:
    """Begin a session: its cookie is set, and the token that changes need comes back."""
    # A page elsewhere could log its visitors in as somebody else, and see what they then do.
    check_origin(request)
    name, password = credentials_in(request.headers.get("content-type", ""), await read_body(request, LOGIN_BYTES))
    user = await check_password(request, context, name, password)
    check_tag(user, Needs.MANAGEMENT)
    return begin_session(request, context, user)


@gives({200: _SESSION})
async def show_session(request: Request, context: Context) -> Response:
    """Whose session this is, and its token, for a page that was loaded anew."""
    session = session_of(request, context)
    user = None if session is None else context.sessions.user_of(session)
    if session is None or user is None:
        raise not_authorised("Login failed")
    return session_answer(user, session)


@gives({204: None})
async def log_out(request: Request, context: Context) -> Response:
    """End the session, if there is one. Nothing is asked: to be logged out harms nobody."""
    return end_session(request, context)


@gives({200: whole(oauth_enabled=FLAG)})
async def show_methods(request: Request, context: Context) -> Response:
    """How one may log in, for pages that ask before they show a form."""
    # Under the names of RabbitMQ 3.11 and later, and of those before.
    later = {"oauth_enabled": False, "oauth_client_id": "", "oauth_provider_url": ""}
    return JSONResponse({**later, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


@gives({200: _ATTEMPTS})
async def list_attempts(call: Call) -> Response:
    """Logins by protocol since the last reset."""
    check_own_name(call)
    rows = [
        {
            "protocol": protocol,
            "auth_attempts": int(each.succeeded + each.failed),
            "auth_attempts_failed": int(each.failed),
            "auth_attempts_succeeded": int(each.succeeded),
        }
        for protocol, each in call.node.logins.by_protocol.items()
    ]
    return JSONResponse(rows)


@gives({204: None})
async def reset_attempts(call: Call) -> Response:
    """Begin to count anew; addresses that had to wait need not any more."""
    check_own_name(call)
    call.node.logins.reset()
    return done()


ROUTES: Final = [
    open_route("/api/login", POST=log_in, GET=show_session),
    open_route("/api/logout", POST=log_out),
    open_route("/api/auth", GET=show_methods),
    route("/api/auth/attempts/{name}", Needs.MONITORING, GET=list_attempts),
    route("/api/auth/attempts/{name}", Needs.ADMINISTRATOR, DELETE=reset_attempts),
]
