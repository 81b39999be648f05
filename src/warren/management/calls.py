"""One request to the API: who asks, what for, and may they. Every endpoint is a function of a Call."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from warren.amqp.methods import Method
from warren.broker.access import User, is_loopback
from warren.broker.definitions import Hasher
from warren.broker.node import Node
from warren.broker.vhost import VHost
from warren.management.direct import Closed, DirectClient
from warren.management.listing import Item, columns, listing
from warren.management.pipeline_reports import Pipelines
from warren.management.rates import Rates
from warren.management.refusals import Refusal, bad_request, not_authorised, not_found

BODY_MAX: Final = 10_000_000


@dataclass
class Port:
    protocol: str
    host: str
    port: int


@dataclass
class Context:
    """What the API needs of the broker and the process around it."""

    node: Node
    tick: Callable[[], None]
    end_turn: Callable[[], None]
    verify_password: Callable[[str, str, str], Awaitable[bool]]
    hash_password: Callable[[str], Awaitable[tuple[str, str]]]
    hasher: Hasher
    ports: list[Port]
    memory_limit: int
    memory_used: Callable[[], int]
    disk_free_limit: int
    disk_free: Callable[[], int]
    file_limit: int
    rates: Rates = field(default_factory=Rates)
    pipelines: Pipelines = field(default_factory=Pipelines)


class Needs(IntEnum):
    """The least tag that a user must have."""

    NOTHING = 0
    MANAGEMENT = 1
    POLICYMAKER = 2
    MONITORING = 3
    ADMINISTRATOR = 4


_REFUSALS: Final = {
    Needs.MANAGEMENT: "Not management user",
    Needs.POLICYMAKER: "Not policymaker",
    Needs.MONITORING: "Not monitor user",
    Needs.ADMINISTRATOR: "Not administrator user",
}


class Call:
    def __init__(self, request: Request, context: Context, user: User) -> None:
        self.request = request
        self.context = context
        self.node = context.node
        self.rates = context.rates
        self.now = int(context.node.now)
        self.user = user

    def path(self, name: str) -> str:
        # The path reaches the routes undecoded, because a vhost may hold slashes.
        return unquote(self.request.path_params[name])

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    def flag(self, name: str) -> bool:
        return self.request.query_params.get(name) == "true"

    def vhost(self) -> VHost:
        """The virtual host in the path, if there is one and the user may see it."""
        vhost = self.node.vhosts.get(self.path("vhost"))
        if vhost is None:
            raise not_found()
        if not self.may_see(vhost.name):
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def may_see(self, vhost: str) -> bool:
        return self.user.is_monitoring() or self.node.access.may_access_vhost(self.user.name, vhost)

    def vhosts(self) -> list[VHost]:
        """The one in the path, or all that the user may see."""
        if "vhost" in self.request.path_params:
            return [self.vhost()]
        return [vhost for vhost in self.node.vhosts.values() if self.may_see(vhost.name)]

    def vhost_to_use(self) -> VHost:
        """The virtual host in the path, for acting in it as a client of its own would."""
        vhost = self.node.vhosts.get(self.path("vhost"))
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        if not self.node.access.may_access_vhost(self.user.name, vhost.name):
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def act(self, method: Method) -> None:
        """Do as a client would that sends this method in the virtual host of the path."""
        with DirectClient(self.node, self.user.name, self.vhost_to_use()) as client:
            try:
                client.call(method)
            except Closed as closed:
                raise closed.refusal() from closed

    def required(self, body: Item, *keys: str) -> Item:
        missing = [key for key in keys if key not in body]
        if missing:
            raise bad_request("[" + ",".join(f"{{key_missing,{key}}}" for key in missing) + "]")
        return body

    async def body(self) -> Item:
        """The JSON object of the request; no body is an empty one."""
        data = await read_body(self.request)
        if not data.strip():
            return {}
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise bad_request("not_json") from None
        if not isinstance(value, dict):
            raise bad_request("not_json")
        return value

    def listing(self, items: list[Item]) -> Response:
        return JSONResponse(listing(items, self.query))

    def item(self, item: Item) -> Response:
        return JSONResponse(columns(item, self.query))


Handler = Callable[[Call], Awaitable[Response]]
CREATED: Final = 201
NO_CONTENT: Final = 204


def done(is_new: bool = False) -> Response:
    return Response(status_code=CREATED if is_new else NO_CONTENT)


def route(path: str, needs: Needs = Needs.MANAGEMENT, **handlers: Handler) -> Route:
    """`route("/api/x/{name}", GET=show, PUT=put)`"""

    async def endpoint(request: Request) -> Response:
        context: Context = request.app.state.context
        context.tick()
        user = await log_in(request, context)
        check_tag(user, needs)
        response = await handlers[request.method.replace("HEAD", "GET")](Call(request, context, user))
        # What was changed must be durable before anybody reads that it is so.
        context.end_turn()
        return response

    return Route(path, endpoint, methods=list(handlers))


async def read_body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    # Counted as it comes: a declared length may be missing or a lie.
    async for part in request.stream():
        size += len(part)
        if size > BODY_MAX:
            raise Refusal(413, "payload_too_large", f"request bodies are limited to {BODY_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


async def log_in(request: Request, context: Context) -> User:
    name, password = credentials_of(request)
    user = context.node.access.find(name)
    algorithm, password_hash = ("", "") if user is None else (user.hashing_algorithm, user.password_hash)
    # Asked also about nobody, so that an unknown user takes as long as a wrong password.
    is_right = await context.verify_password(algorithm, password_hash, password)
    if user is None or not is_right:
        raise Refusal(401, "not_authorized", "Login failed")
    peer = request.client.host if request.client is not None else ""
    if name in context.node.settings.loopback_users and not is_loopback(peer):
        raise not_authorised("User can only log in via localhost")
    return user


def credentials_of(request: Request) -> tuple[str, str]:
    kind, _, encoded = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        raise not_authorised("Login failed")
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise not_authorised("Login failed") from None
    return name, password


def check_tag(user: User, needs: Needs) -> None:
    has = {
        Needs.NOTHING: True,
        Needs.MANAGEMENT: user.is_management(),
        Needs.POLICYMAKER: user.is_policymaker(),
        Needs.MONITORING: user.is_monitoring(),
        Needs.ADMINISTRATOR: user.is_administrator(),
    }
    if not has[needs]:
        raise not_authorised(_REFUSALS[needs])
