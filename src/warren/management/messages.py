"""Messages through the API: publishing one, and getting some. Getting is no peek: it takes and may give back."""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from warren.amqp.fields import table_of
from warren.amqp.frames import body_spans, properties_span
from warren.amqp.methods import BasicAck, BasicGet, BasicGetOk, BasicNack
from warren.amqp.properties import (
    NUMBER_PROPERTIES,
    TEXT_PROPERTIES,
    Properties,
    decode_properties,
    plain_properties,
)
from warren.client.session import Received, Refused
from warren.management.calls import Call, route
from warren.management.direct import DirectClient, refusal_to_http
from warren.management.exchanges import exchange_in
from warren.management.listing import Item
from warren.management.pieces import BYTES_PER_UNIT, Pace, encode, respond
from warren.management.refusals import bad_request
from warren.management.spec import FLAG, NUMBER, OBJECT, TEXT, Schema, gives, list_of, shape, takes, whole

GET_MAX: Final = 10_000
# One answer holds no more of them than this and one.
GET_BYTES: Final = 64 * 1024 * 1024
# What is written at once of a payload: a multiple of three, so that chunks of base64 are the base64 of the whole.
CHUNK: Final = 3 * 65536
_GET_UNITS: Final = 60
_UTF8: Final = codecs.getincrementaldecoder("utf-8")
# What becomes of the messages afterwards: acknowledged, or given back.
_ACK_MODES: Final = {
    "ack_requeue_false": False,
    "ack_requeue_true": True,
    "reject_requeue_false": False,
    "reject_requeue_true": True,
}

# What is told of a message wherever one is shown.
MESSAGE: Final[dict[str, Schema]] = {
    "payload_bytes": NUMBER,
    "redelivered": FLAG,
    "exchange": TEXT,
    "routing_key": TEXT,
    "properties": OBJECT,
    "payload": TEXT,
    "payload_encoding": TEXT,
}


@takes(
    "properties",
    "routing_key",
    "payload",
    "payload_encoding",
    properties=OBJECT,
    routing_key=TEXT,
    payload=TEXT,
    payload_encoding={"type": "string", "enum": ["string", "base64"]},
)
@gives({200: whole(routed=FLAG)})
async def publish(call: Call) -> Response:
    vhost, exchange = call.vhost_to_use(), exchange_in(call)
    body = call.required(await call.body(), "properties", "routing_key", "payload", "payload_encoding")
    properties = properties_from(body["properties"])
    payload = payload_from(body["payload"], body["payload_encoding"])
    await call.pace.spend(len(payload) // BYTES_PER_UNIT)
    if not isinstance(body["routing_key"], str):
        raise bad_request("routing_key must be text")
    with DirectClient(call.node, call.user.name, vhost) as client:
        try:
            is_routed = await client.publish(exchange, body["routing_key"], properties, payload, call.pace)
        except Refused as refused:
            raise bad_request(f"{refused.code} {refused.text}") from refused
    return JSONResponse({"routed": is_routed})


@takes(
    "count",
    "ackmode",
    "encoding",
    count=NUMBER,
    ackmode={"type": "string", "enum": list(_ACK_MODES)},
    encoding={"type": "string", "enum": ["auto", "base64"]},
    truncate=NUMBER,
)
@gives({200: list_of(shape((*MESSAGE, "message_count"), **MESSAGE, message_count=NUMBER))})
async def get(call: Call) -> Response:
    vhost, queue = call.vhost_to_use(), call.path("name")
    body = call.required(await call.body(), "count", "ackmode", "encoding")
    count, is_given_back = count_from(body["count"]), _ACK_MODES.get(str(body["ackmode"]))
    truncate = number_from(body["truncate"], "truncate") if "truncate" in body else -1
    if is_given_back is None:
        raise bad_request(f"ackmode must be one of {', '.join(_ACK_MODES)}")
    if body["encoding"] not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    with DirectClient(call.node, call.user.name, vhost) as client:
        answers = await take(call, client, queue, count)
        if answers:
            settle(client, answers, body["ackmode"], is_given_back)
    return await respond(shown(call.pace, answers, body["encoding"], truncate))


async def take(call: Call, client: DirectClient, queue: str, count: int) -> list[Received]:
    """As many as there are, as were asked for, and as memory should hold for one answer."""
    answers: list[Received] = []
    size = 0
    while len(answers) < count and size < GET_BYTES:
        try:
            answer = client.call(BasicGet(queue=queue))
        except Refused as refused:
            raise refusal_to_http(refused) from refused
        if not isinstance(answer.method, BasicGetOk):
            break
        answers.append(answer)
        size += len(answer.content)
        await call.pace.spend(_GET_UNITS + len(answer.content) // BYTES_PER_UNIT)
    return answers


async def shown(pace: Pace, answers: list[Received], encoding: str, truncate: int) -> AsyncIterator[bytes]:
    before = b"["
    for answer in answers:
        async for piece in describe(pace, answer, encoding, truncate):
            yield before + piece
            before = b""
        before = b","
    yield b"]" if answers else b"[]"


def settle(client: DirectClient, answers: list[Received], mode: str, is_given_back: bool) -> None:
    last = answers[-1].method
    assert isinstance(last, BasicGetOk)
    if mode == "ack_requeue_false":
        client.send(BasicAck(delivery_tag=last.delivery_tag, multiple=True))
    else:
        client.send(BasicNack(delivery_tag=last.delivery_tag, multiple=True, requeue=is_given_back))


async def describe(pace: Pace, answer: Received, encoding: str, truncate: int) -> AsyncIterator[bytes]:
    """The payload a chunk at a time: to write 128 MiB takes longer than a turn."""
    method = answer.method
    assert isinstance(method, BasicGetOk)
    content = answer.content
    size = sum(end - start for start, end in body_spans(content))
    shown = min(size, truncate) if truncate >= 0 else size
    used = "string" if encoding == "auto" and await is_text(pace, body_chunks(content, shown)) else "base64"
    head = encode(
        {
            "payload_bytes": size,
            "redelivered": method.redelivered,
            "exchange": method.exchange,
            "routing_key": method.routing_key,
            "message_count": method.message_count,
            "properties": properties_to(content),
            "payload_encoding": used,
        }
    )
    yield head[:-1] + b',"payload":"'
    decoder = _UTF8()
    for chunk in body_chunks(content, shown):
        text = decoder.decode(chunk) if used == "string" else base64.b64encode(chunk).decode()
        # Without the quotes around it.
        yield encode(text)[1:-1]
        await pace.spend(len(chunk) // BYTES_PER_UNIT)
    yield b'"}'


def body_chunks(content: bytes, size: int) -> Iterator[bytes]:
    """The first so many bytes of a body, CHUNK at a time: to put 16 MiB together takes longer than a turn."""
    parts: list[bytes] = []
    held = 0
    for start, end in body_spans(content):
        while start < end and size > 0:
            stop = min(end, start + CHUNK - held, start + size)
            parts.append(content[start:stop])
            held += stop - start
            size -= stop - start
            start = stop
            if held == CHUNK:
                yield b"".join(parts)
                parts, held = [], 0
    if held:
        yield b"".join(parts)


async def is_text(pace: Pace, chunks: Iterator[bytes]) -> bool:
    decoder = _UTF8()
    try:
        for chunk in chunks:
            decoder.decode(chunk)
            await pace.spend(len(chunk) // BYTES_PER_UNIT)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def properties_from(value: object) -> Properties:
    if not isinstance(value, dict):
        raise bad_request("properties must be an object")
    properties = Properties()
    for name in NUMBER_PROPERTIES:
        if name in value:
            if not isinstance(value[name], int) or isinstance(value[name], bool):
                raise bad_request(["not_int", name])
            setattr(properties, name, value[name])
    for name in TEXT_PROPERTIES:
        if name in value:
            if not isinstance(value[name], str):
                raise bad_request(["not_text", name])
            setattr(properties, name, value[name])
    headers = value.get("headers")
    if headers is not None:
        if not isinstance(headers, dict):
            raise bad_request("headers must be an object")
        properties.headers = table_of(headers)
    return properties


def properties_to(content: bytes) -> Item:
    return plain_properties(decode_properties(content, *properties_span(content)))


def payload_from(payload: Any, encoding: Any) -> bytes:
    if not isinstance(payload, str):
        raise bad_request("payload must be text")
    if encoding == "string":
        return payload.encode(errors="surrogatepass")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload]) from None


def count_from(value: Any) -> int:
    """A negative number means all there are."""
    count = number_from(value, "count")
    return GET_MAX if count < 0 else min(count, GET_MAX)


def number_from(value: Any, name: str) -> int:
    """Forms send numbers as text."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise bad_request(["not_int", name]) from None


ROUTES: Final = [
    route("/api/exchanges/{vhost}/{name}/publish", POST=publish),
    route("/api/queues/{vhost}/{name}/get", POST=get),
]
