"""One request to the API: who asks, what for, and may they. Every endpoint is a function of a Call.

`route` makes the entries of the table that the server answers from and that openapi.py prints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from warren.amqp.methods import Method
from warren.broker.node import Node
from warren.broker.operate.definitions import Hasher
from warren.broker.rules.access import User
from warren.broker.session.channel import Channel
from warren.broker.session.connection import Connection
from warren.broker.vhost.vhost import VHost
from warren.client.session import Refused
from warren.management.direct import DirectClient, refusal_to_http
from warren.management.json_bodies import json_in
from warren.management.listing import Item, Lister, columns
from warren.management.login import SAFE, check_origin, user_of
from warren.management.pieces import Pace, respond
from warren.management.pipeline_reports import Pipelines
from warren.management.rates import SAMPLES_MAX, History, Rates
from warren.management.refusals import Refusal, bad_request, not_authorised, not_found
from warren.management.sessions import Sessions

# A body that trickles in holds a connection and memory: this long it may take, whatever its size.
BODY_SECONDS: Final = 30.0


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
    # Gives False when what has happened so far will never be durable.
    durable: Callable[[], Awaitable[bool]]
    is_halted: Callable[[], bool]
    verify_password: Callable[[str, str, str, str], Awaitable[bool]]
    hash_password: Callable[[str], Awaitable[tuple[str, str]]]
    hasher: Hasher
    ports: list[Port]
    memory_limit: int
    memory_used: Callable[[], int]
    disk_free_limit: int
    disk_free: Callable[[], int]
    file_limit: int
    files_used: Callable[[], int]
    data_dir: str
    # When the TLS certificate ends, in seconds of the epoch; None without one.
    certificate_ends: Callable[[], float | None]
    # Bytes of one request's body, and of all that are being read.
    http_body_max: int
    http_bodies_max: int
    # The nodes of the cluster that this one leads; none where it is alone.
    cluster: Callable[[], list[Item]] = list
    rates: Rates = field(default_factory=Rates)
    pipelines: Pipelines = field(default_factory=Pipelines)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.node.access, self.data_dir, int(self.node.now))
        self.body_bytes = 0


class Needs(IntEnum):
    """The least tag that a user must have."""

    NOTHING = 0
    MANAGEMENT = 1
    POLICYMAKER = 2
    MONITORING = 3
    ADMINISTRATOR = 4


_REFUSALS: Final = {
    Needs.MANAGEMENT: "Not management user",
    Needs.POLICYMAKER: "User not authorised to access object",
    Needs.MONITORING: "Not monitor user",
    Needs.ADMINISTRATOR: "Not administrator user",
}


Owned = TypeVar("Owned", Connection, Channel)
Thing = TypeVar("Thing")
NO_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {}


def _as_it_is(item: Item) -> Item:
    return item


class Call:
    def __init__(self, request: Request, context: Context, user: User) -> None:
        self.request = request
        self.context = context
        self.node = context.node
        self.rates = context.rates
        self.now = int(context.node.now)
        self.user = user
        self.pace = Pace(context.node, self._resumed)

    def _resumed(self) -> None:
        self.context.tick()
        self.take_turn()

    def path(self, name: str) -> str:
        # The path reaches the routes undecoded, because a vhost may hold slashes.
        return unquote(self.request.path_params[name])

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    def flag(self, name: str) -> bool:
        return self.request.query_params.get(name) == "true"

    def vhost(self) -> VHost:
        """The virtual host in the path, if there is one and the user may see it, or for a change use it."""
        is_change = self.request.method not in SAFE
        vhost = self.ruled_vhost() if is_change else found(self.node.vhosts.get(self.path("vhost")))
        if not is_change and not self.may_see(vhost.name):
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def ruled_vhost(self) -> VHost:
        """The same for what also monitors see only with permissions: policies and parameters, as in RabbitMQ."""
        vhost = found(self.node.vhosts.get(self.path("vhost")))
        if not self.may_change(vhost.name):
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def ruled_vhosts(self) -> list[VHost]:
        return [self.ruled_vhost()] if "vhost" in self.request.path_params else self.vhosts()

    def may_see(self, vhost: str) -> bool:
        return self.user.is_monitoring() or self.node.access.may_access_vhost(self.user.name, vhost)

    def may_change(self, vhost: str) -> bool:
        """Monitors look; administrators need no permissions of their own, as in RabbitMQ."""
        return self.user.is_administrator() or self.node.access.may_access_vhost(self.user.name, vhost)

    def connections(self) -> list[Connection]:
        """Those that are open in the virtual host in the path, or in any; without the monitoring tag only one's own."""
        vhost = self.vhost() if "vhost" in self.request.path_params else None
        return [
            connection
            for connection in self.node.connections.values()
            if connection.vhost is not None
            and vhost in (None, connection.vhost)
            and (self.user.is_monitoring() or connection.user == self.user.name)
        ]

    def owned(self, named: list[Owned]) -> Owned:
        """The one of that name, for its user and for those who see everything."""
        thing = found(next(iter(named), None))
        self.check_owner(thing.user, self.user.is_monitoring())
        return thing

    def check_owner(self, user: str, is_privileged: bool) -> None:
        if not is_privileged and user != self.user.name:
            raise not_authorised("Access refused.")

    def vhosts(self) -> list[VHost]:
        """The one in the path, or all that the user may see."""
        if "vhost" in self.request.path_params:
            return [self.vhost()]
        return [vhost for vhost in self.node.vhosts.values() if self.may_see(vhost.name)]

    def vhost_to_use(self) -> VHost:
        """The virtual host in the path, for acting in it as a client of its own would."""
        vhost = self.node.open_vhost(self.path("vhost"))
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        if not self.node.access.may_access_vhost(self.user.name, vhost.name):
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def take_turn(self) -> None:
        """After a wait, in which others may have acted: what happens from here on is this user's doing."""
        self.node.events.actor = self.user.name
        self.node.events.place = "" if self.request.client is None else self.request.client.host

    async def act(self, method: Method) -> None:
        """Do as a client would that sends this method in the virtual host of the path."""
        with DirectClient(self.node, self.user.name, self.vhost_to_use()) as client:
            try:
                await client.ask(method)
            except Refused as refused:
                raise refusal_to_http(refused) from refused

    def required(self, body: Item, *keys: str) -> Item:
        missing = [key for key in keys if key not in body]
        if missing:
            raise bad_request("[" + ",".join(f"{{key_missing,{key}}}" for key in missing) + "]")
        return body

    async def body(self) -> Item:
        """The JSON object of the request; no body is an empty one."""
        data = await read_body(self.request)
        self.take_turn()
        if not data.strip():
            return {}
        try:
            value = await json_in(data, self.pace)
        except (ValueError, RecursionError):
            raise bad_request("not_json") from None
        if not isinstance(value, dict):
            raise bad_request("not_json")
        return value

    def history(self, kind: str) -> History | None:
        """`lengths_age` and `lengths_incr`, `msg_rates_age`, ...: samples of so many seconds, so far apart."""
        age, step = self.request.query_params.get(f"{kind}_age"), self.request.query_params.get(f"{kind}_incr")
        if age is None or step is None:
            return None
        if not age.isdecimal() or not step.isdecimal() or len(age) > 6 or not 0 < int(step) <= int(age):
            raise bad_request(f"{kind}_age and {kind}_incr must be seconds, and the first the greater one")
        return History(int(age) * 1000, max(int(step) * 1000, int(age) * 1000 // SAMPLES_MAX))

    async def listing(
        self,
        things: Sequence[Thing],
        describe: Callable[[Thing], Item],
        values: Mapping[str, Callable[[Thing], Any]] = NO_VALUES,
    ) -> Response:
        """Filtered, sorted and cut as the query asks for."""
        return await respond(Lister(self.query, self.pace, describe, values).pieces(things))

    async def items(self, items: list[Item]) -> Response:
        """The same for few things, which are described already."""
        return await self.listing(items, _as_it_is)

    def item(self, item: Item) -> Response:
        return JSONResponse(columns(item, self.query))


Handler = Callable[..., Awaitable[Response]]
CREATED: Final = 201
NO_CONTENT: Final = 204


def done(is_new: bool = False) -> Response:
    return Response(status_code=CREATED if is_new else NO_CONTENT)


def deleted(was_there: bool) -> Response:
    if not was_there:
        raise not_found()
    return done()


def found(thing: Thing | None) -> Thing:
    """What was looked for, or 404."""
    if thing is None:
        raise not_found()
    return thing


class Resource(Route):
    """One path, and what each method on it does."""

    def __init__(self, path: str, needs: Needs, handlers: dict[str, Handler]) -> None:
        super().__init__(path, self.answer, methods=list(handlers))
        self.needs = needs
        self.handlers = handlers

    async def answer(self, request: Request) -> Response:
        context: Context = request.app.state.context
        context.tick()
        if request.method not in SAFE:
            check_origin(request)
        user = await user_of(request, context)
        request.state.gate.proven(request.state.descriptor)
        check_tag(user, self.needs)
        method = request.method.replace("HEAD", "GET")
        if method != "GET" and context.is_halted():
            raise _cannot_promise()
        call = Call(request, context, user)
        call.take_turn()
        response = await self.handlers[method](call)
        while method != "GET" and context.node.sweeping > 0:
            # What it began over all queues is to be done when it is answered.
            await call.pace.next_turn()
        context.end_turn()
        # What was changed must be durable before anybody reads that it is so.
        if method != "GET" and not await context.durable():
            raise _cannot_promise()
        return response


def _cannot_promise() -> Refusal:
    return Refusal(503, "service_unavailable", "the data folder failed: nothing can be changed any more")


class OpenResource(Resource):
    """Asked before anybody is known. Its handlers take the request and the context."""

    async def answer(self, request: Request) -> Response:
        context: Context = request.app.state.context
        context.tick()
        return await self.handlers[request.method.replace("HEAD", "GET")](request, context)


def route(path: str, needs: Needs = Needs.MANAGEMENT, **handlers: Handler) -> Resource:
    """`route("/api/x/{name}", GET=show, PUT=put)`"""
    return Resource(path, needs, handlers)


def open_route(path: str, **handlers: Handler) -> Resource:
    return OpenResource(path, Needs.NOTHING, handlers)


async def read_body(request: Request, most: int = 0) -> bytes:
    """`most` is less than others may send."""
    context: Context = request.app.state.context
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_all(request, context, most or context.http_body_max)
    except TimeoutError:
        raise Refusal(408, "timeout", f"a request's body must arrive within {BODY_SECONDS:g} s") from None


async def _read_all(request: Request, context: Context, most: int) -> bytes:
    too_large = Refusal(413, "payload_too_large", f"request bodies are limited to {most} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > most:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        # Counted as it comes: a declared length may be missing or a lie.
        async for part in request.stream():
            size += len(part)
            context.body_bytes += len(part)
            if size > most:
                raise too_large
            if context.body_bytes > context.http_bodies_max:
                raise Refusal(503, "too_many_bodies", "too many large requests at once: try again later")
            parts.append(part)
    finally:
        context.body_bytes -= size
    return b"".join(parts)


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
