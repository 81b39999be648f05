"""Many wrong passwords at once: as many are tried as are allowed, and honest clients get in meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pika
from tests.broker.harness import World, frame

from warren import Broker
from warren.amqp import methods
from warren.amqp.constants import PROTOCOL_HEADER
from warren.broker.rules.logins import ALL_NAMES, WINDOW_MS, Logins
from warren.broker.settings import Settings
from warren.server.fair_line import FairLine


def test_no_more_are_checked_at_once_than_may_be_wrong() -> None:
    world = World(Settings(login_failures_max=60))
    world.host.holds_passwords = True
    for _ in range(200):
        world.dial().log_in("guest", "wrong")
    assert len(world.host.waiting_passwords) == 60
    world.host.answer_passwords()
    assert world.node.logins.by_protocol["amqp091"].failed == 60


def test_logins_that_were_right_make_room_for_others() -> None:
    logins = Logins(3)
    for _ in range(10):
        assert logins.begin("here", "alice", 0) == 0
        logins.noted("http", "here", "alice", True, 0)


def test_a_name_is_tried_again_after_a_minute() -> None:
    logins = Logins(1)
    assert logins.begin("here", "alice", 0) == 0
    logins.noted("http", "here", "alice", False, 10)
    assert logins.begin("here", "alice", 20) == WINDOW_MS - 20
    assert logins.begin("there", "alice", 20) == 0
    assert logins.begin("here", "bob", 20) == 0
    assert logins.begin("here", "alice", WINDOW_MS) == 0


def test_the_names_tried_from_one_address_are_counted_together() -> None:
    logins = Logins(2)
    waits = [logins.begin("here", f"user{each}", 0) for each in range(2 * ALL_NAMES + 1)]
    assert waits == [0] * 2 * ALL_NAMES + [WINDOW_MS]


def test_everybody_gets_a_turn_whoever_came_with_more() -> None:
    order: list[str] = []
    gate = threading.Event()

    async def play() -> None:
        with ThreadPoolExecutor(1) as threads:
            line = FairLine(asyncio.get_running_loop(), threads, 1)
            first = line.join("many", gate.wait)
            waiting = [line.join("many", order.append, "many") for _ in range(5)]
            waiting += [line.join("one", order.append, "one"), line.join("other", order.append, "other")]
            gate.set()
            await asyncio.gather(first, *waiting)

    asyncio.run(play())
    assert order == ["many", "one", "other", "many", "many", "many", "many"]


def test_what_fails_in_the_line_is_told_to_who_brought_it() -> None:
    async def play() -> list[object]:
        with ThreadPoolExecutor(1) as threads:
            line = FairLine(asyncio.get_running_loop(), threads, 1)
            failed = line.join("one", int, "no number")
            right = line.join("one", int, "7")
            return list(await asyncio.gather(failed, right, return_exceptions=True))

    failure, number = asyncio.run(play())
    assert isinstance(failure, ValueError)
    assert number == 7


def test_who_waits_when_the_broker_stops_is_told_so() -> None:
    gate = threading.Event()
    wrong: list[object] = []

    async def play() -> list[object]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        with ThreadPoolExecutor(1) as threads:
            line = FairLine(loop, threads, 1)
            first, second = line.join("one", gate.wait), line.join("one", int, "7")
            line.close()
            threads.shutdown(wait=False, cancel_futures=True)
            gate.set()
            return list(await asyncio.gather(first, second, return_exceptions=True))

    first, second = asyncio.run(play())
    assert first is True
    assert isinstance(second, asyncio.CancelledError)
    assert wrong == []


def test_an_honest_client_logs_in_while_many_wrong_passwords_are_checked() -> None:
    login = methods.ConnectionStartOk(mechanism="PLAIN", response=b"\x00guest\x00wrong", locale="en_US")
    with Broker() as broker, ExitStack() as opened:
        broker.add_user("honest", "secret")
        broker.set_permission("honest")
        for _ in range(300):
            peer = opened.enter_context(socket.create_connection((broker.host, broker.port), timeout=20))
            peer.sendall(PROTOCOL_HEADER + frame(login, 0))
        pika.BlockingConnection(pika.URLParameters(broker.url_of("honest", "secret"))).close()
        assert broker.call(lambda node: node.logins.by_protocol["amqp091"].failed) <= 60
