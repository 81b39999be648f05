"""What the API takes before it knows who asks, from which pages, and from whom while it cannot."""

from __future__ import annotations

import asyncio
import select
import socket
from base64 import b64encode

import pika
import pytest

from tests.broker.harness import World
from tests.management.asking import Asking
from warren import Broker
from warren.amqp.properties import Properties
from warren.management import direct
from warren.management.pieces import Pace
from warren.management.refusals import Refusal
from warren.management.session import LOGIN_BYTES

LOGIN = b64encode(b"guest:guest").decode()
MESSAGE = {"properties": {}, "routing_key": "q", "payload": "m", "payload_encoding": "string"}


def first_line(broker: Broker, head: str, body: bytes = b"") -> str:
    """What is answered to a request that is not sent to its end."""
    place = broker.http_url.removeprefix("http://").split(":")
    with socket.create_connection((place[0], int(place[1])), timeout=20) as peer:
        peer.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        return peer.makefile().readline().strip()


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [f"content-length: {9_900_000}", "transfer-encoding: chunked"])
def test_a_login_has_a_small_body(broker: Broker, length: str) -> None:
    body = b"%x\r\n%s\r\n" % (LOGIN_BYTES + 1, bytes(LOGIN_BYTES + 1)) if "chunked" in length else b""
    head = f"POST /api/login HTTP/1.1\nhost: x\ncontent-type: application/json\n{length}"
    assert first_line(broker, head, body).startswith("HTTP/1.1 413")


@pytest.mark.parametrize("login", ["", "authorization: Basic " + b64encode(b"guest:wrong").decode() + "\n"])
def test_nobody_is_waited_for_who_is_not_known(broker: Broker, login: str) -> None:
    head = f"PUT /api/definitions HTTP/1.1\nhost: x\n{login}content-type: application/json\ncontent-length: 9900000"
    answer = first_line(broker, head.replace("PUT", "POST"), b"{")
    assert answer.startswith("HTTP/1.1 401")


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    with Broker(http=True, http_body_max=2000) as broker:
        head = f"POST /api/definitions HTTP/1.1\nhost: x\nauthorization: Basic {LOGIN}\ncontent-length: 2001"
        assert first_line(broker, head).startswith("HTTP/1.1 413")


def test_all_bodies_together_are_limited() -> None:
    with Broker(http=True, http_body_max=60_000, http_bodies_max=100_000) as broker:
        host, port = broker.http_url.removeprefix("http://").split(":")
        head = f"POST /api/definitions HTTP/1.1\r\nhost: x\r\nauthorization: Basic {LOGIN}\r\n"
        with (
            socket.create_connection((host, int(port)), timeout=20) as first,
            socket.create_connection((host, int(port)), timeout=20) as second,
        ):
            first.sendall(f"{head}content-length: 60000\r\n\r\n".encode() + bytes(59_000))
            second.sendall(f"{head}content-length: 50000\r\n\r\n".encode() + bytes(49_000))
            [answered], _, _ = select.select([first, second], [], [], 20)
            assert answered.makefile().readline().startswith("HTTP/1.1 503")
        assert Asking(broker).put("/api/queues/%2F/q", {}).status == 201


# -- pages from elsewhere ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example", "http://127.0.0.1:1"]
)
def test_a_page_from_elsewhere_changes_nothing(api: Asking, origin: str) -> None:
    answer = api.ask("PUT", "/api/vhosts/evil", {}, Origin=origin)
    assert (answer.status, answer.json["error"]) == (403, "csrf")
    assert api.get("/api/vhosts/evil").status == 404


def test_a_browser_that_says_cross_site_changes_nothing(api: Asking) -> None:
    assert api.ask("PUT", "/api/vhosts/evil", {}, Sec_Fetch_Site="cross-site").status == 403


@pytest.mark.parametrize("kind", ["text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x"])
def test_what_a_form_could_send_is_not_taken(api: Asking, kind: str) -> None:
    assert api.ask("POST", "/api/definitions", b"{}", Content_Type=kind).status == 415


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", ""])
def test_tools_say_one_of_these(broker: Broker, api: Asking, kind: str) -> None:
    headers = {"Content_Type": kind} if kind else {}
    assert api.ask("PUT", f"/api/queues/%2F/{len(kind)}", b"{}", **headers).status == 201


def test_our_own_page_changes_things_also_behind_a_proxy(broker: Broker, api: Asking) -> None:
    assert api.ask("PUT", "/api/queues/%2F/own", {}, Origin=broker.http_url).status == 201
    proxied = {"Origin": "https://queues.example", "X_Forwarded_Host": "queues.example"}
    assert api.ask("PUT", "/api/queues/%2F/proxied", {}, **proxied).status == 201


# -- who may change what -----------------------------------------------------------------------------------------------


def test_a_monitor_who_may_set_policies_needs_permissions_for_the_virtual_host(broker: Broker) -> None:
    broker.add_vhost("closed")
    broker.add_user("maker", "secret", ["monitoring", "policymaker"])
    asking = Asking(broker, "maker:secret")
    policy = {"pattern": "", "definition": {"max-length": 1}}
    assert asking.get("/api/queues/closed").status == 200
    assert asking.get("/api/policies/closed").status == 401
    assert asking.get("/api/parameters/federation/closed").status == 401
    assert asking.put("/api/policies/closed/p", policy).status == 401
    assert asking.put("/api/parameters/federation/closed/p", {"value": {}}).status == 401
    assert asking.delete("/api/policies/closed/p").status == 401
    broker.set_permission("maker", "closed", "", "", "")
    assert asking.put("/api/policies/closed/p", policy).status == 201
    assert asking.delete("/api/policies/closed/p").status == 204


def test_an_administrator_needs_none(broker: Broker, api: Asking) -> None:
    broker.call(lambda node: node.add_vhost("not mine"))
    policy = {"pattern": "", "definition": {"max-length": 1}}
    assert api.put("/api/policies/not%20mine/p", policy).status == 201


def test_a_monitor_does_not_change_what_it_watches(broker: Broker, api: Asking) -> None:
    broker.add_user("watcher", "secret", ["monitoring"])
    asking = Asking(broker, "watcher:secret")
    assert api.put("/api/pipelines/%2F/orders", {"state": "running"}).status == 201
    assert asking.get("/api/pipelines/%2F/orders").status == 200
    assert asking.delete("/api/pipelines/%2F/orders").status == 401
    assert asking.get("/api/traces/settings").status == 200
    assert asking.put("/api/traces/settings", {"sample_every": 1}).status == 401


# -- logins ------------------------------------------------------------------------------------------------------------


def test_a_forwarded_address_escapes_no_limit() -> None:
    with Broker(http=True, login_failures_max=3) as broker:
        wrong = Asking(broker, "guest:wrong")
        statuses = [wrong.get("/api/whoami", X_Forwarded_For=f"10.0.0.{each}").status for each in range(5)]
        assert statuses == [401, 401, 401, 429, 429]


def test_guesses_keep_out_neither_other_users_nor_who_was_in_before() -> None:
    with Broker(http=True, login_failures_max=3) as broker:
        broker.add_user("other", "secret", ["management"])
        assert Asking(broker).get("/api/whoami").status == 200
        wrong = Asking(broker, "guest:wrong")
        assert [wrong.get("/api/whoami").status for _ in range(5)] == [401, 401, 401, 429, 429]
        assert Asking(broker, "other:secret").get("/api/whoami").status == 200
        assert Asking(broker).get("/api/whoami").status == 200
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_an_address_that_tries_many_names_has_to_wait_as_well() -> None:
    with Broker(http=True, login_failures_max=3) as broker:
        statuses = [Asking(broker, f"user{each}:wrong").get("/api/whoami").status for each in range(14)]
        assert statuses == [401] * 12 + [429] * 2


# -- alarms ------------------------------------------------------------------------------------------------------------


def test_publishing_under_an_alarm_is_refused_at_once(broker: Broker, api: Asking) -> None:
    broker.call(lambda node: node.set_alarm("memory", True))
    answer = api.post("/api/exchanges/%2F/amq.default/publish", MESSAGE)
    assert (answer.status, answer.json) == (
        503,
        {"error": "blocked", "reason": "publishers are blocked: low on memory"},
    )
    broker.call(lambda node: node.set_alarm("memory", False))
    assert api.post("/api/exchanges/%2F/amq.default/publish", MESSAGE).status == 200


def test_a_message_that_is_not_confirmed_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "ANSWER_SECONDS", 0.01)
    world = World()
    world.channel().declare("q", durable=True)
    world.store.holds = True

    async def publish() -> None:
        with direct.DirectClient(world.node, "guest", world.vhost) as client:
            await client.publish("", "q", Properties(delivery_mode=2), b"m", Pace(world.node, world.flush))

    with pytest.raises(Refusal, match="not confirmed within") as refused:
        asyncio.run(publish())
    assert refused.value.status == 503
