"""`warren publish`, `get` and `peek`: messages from the command line, through the management API."""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import Progress

from warren.cli.options import EXCHANGE, QUEUE, header_option, key_option, pairs, url_option, vhost_option
from warren.cli.output import json_option, show_rows
from warren.client.api import Api
from warren.errors import WarrenError

_COLUMNS: Final = ("routing_key", "exchange", "redelivered", "properties", "payload")


@click.command()
@click.argument("body", required=False)
@click.option("--exchange", type=EXCHANGE, default="", help="Where to; else the default exchange.")
@key_option("With the default exchange, the queue.", required=True)
@click.option("--file", type=click.Path(dir_okay=False), help="The body is in this file; - is standard input.")
@click.option("--lines", is_flag=True, help="Every line of the file is a message.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How often.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="Such as message_id=m1, priority:=5."
)
@click.option("--transient", is_flag=True, help="Need not survive a restart.")
@header_option
@vhost_option
@url_option
def publish(
    body: str | None,
    exchange: str,
    key: str,
    file: str | None,
    lines: bool,
    count: int,
    properties: tuple[str, ...],
    transient: bool,
    headers: tuple[str, ...],
    vhost: str,
    url: str,
) -> None:
    """Publish BODY, and exit with 1 when no queue took it."""
    bodies = read_bodies(body, file, lines) * count
    sent: dict[str, Any] = {"delivery_mode": 1 if transient else 2, **pairs(properties)}
    if headers:
        sent["headers"] = pairs(headers)
    api = Api(url)
    unrouted = 0
    with Progress(console=Console(stderr=True), transient=True, disable=len(bodies) < 100) as progress:
        for each in progress.track(bodies, description="publishing"):
            if not publish_one(api, vhost, exchange, key, sent, each):
                unrouted += 1
    if unrouted:
        raise WarrenError(f"{unrouted} of {len(bodies)} messages were not routed: no queue is bound for them")


def publish_one(api: Api, vhost: str, exchange: str, key: str, properties: dict[str, Any], body: bytes) -> bool:
    payload = {
        "properties": properties,
        "routing_key": key,
        "payload": b64encode(body).decode(),
        "payload_encoding": "base64",
    }
    return bool(api.post("exchanges", vhost, exchange or "amq.default", "publish", body=payload)["routed"])


def read_bodies(body: str | None, file: str | None, lines: bool) -> list[bytes]:
    if (body is None) == (file is None):
        raise WarrenError("give the message as BODY or with --file")
    if body is not None:
        return [body.encode(errors="surrogateescape")]
    assert file is not None
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise WarrenError(f"cannot read {file}: {error.strerror}") from error
    return data.splitlines() if lines else [data]


@click.command()
@click.argument("queue", type=QUEUE)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="At most so many.")
@click.option("--requeue", is_flag=True, help="Give them back, marked as redelivered. To only look, `warren peek`.")
@json_option
@vhost_option
@url_option
def get(queue: str, count: int, requeue: bool, as_json: bool, vhost: str, url: str) -> None:
    """Take messages from QUEUE."""
    show_rows(fetch(Api(url), vhost, queue, count, requeue), _COLUMNS, as_json)


def fetch(api: Api, vhost: str, queue: str, count: int, requeue: bool) -> list[dict[str, Any]]:
    mode = "ack_requeue_true" if requeue else "ack_requeue_false"
    rows: list[dict[str, Any]] = api.post(
        "queues", vhost, queue, "get", body={"count": count, "ackmode": mode, "encoding": "auto"}
    )
    return rows


@click.command()
@click.argument("queue", type=QUEUE)
@click.option("--count", type=click.IntRange(1, 500), default=20, show_default=True, help="At most so many.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only behind this sequence.")
@key_option("Only with this one; * and ? stand for others.")
@click.option("--header", help="Only with this header: NAME or NAME=VALUE.")
@click.option("--body", help="Only with this text in the body.")
@click.option("--older-than", type=click.IntRange(0), help="Only published so many seconds ago or longer.")
@click.option("--newer-than", type=click.IntRange(0), help="Only published so many seconds ago or less.")
@json_option
@vhost_option
@url_option
def peek(
    queue: str,
    count: int,
    after: int,
    key: str | None,
    header: str | None,
    body: str | None,
    older_than: int | None,
    newer_than: int | None,
    as_json: bool,
    vhost: str,
    url: str,
) -> None:
    """Look at messages of QUEUE without taking them. Only Warren can do this.

    Ages are told by the message's timestamp; messages without one have none.
    """
    question: dict[str, Any] = {
        "count": count,
        "after": after,
        "routing_key": key,
        "header": header,
        "body": body,
        "older_than": older_than,
        "newer_than": newer_than,
    }
    api = Api(url)
    rows: list[dict[str, Any]] = []
    following: int | None = after
    # One answer looks at a bounded number of messages: a rare one may be in a later one.
    while following is not None and len(rows) < count:
        asked = {**question, "after": following, "count": count - len(rows)}
        answer = api.get("queues", vhost, queue, "messages", **asked)
        rows += answer["messages"]
        following = answer["next"]
    show_rows(rows, ("sequence", *_COLUMNS), as_json)
