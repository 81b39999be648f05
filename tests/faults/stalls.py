"""The stall hunter: everything that does work in proportion to something, on a broker that has very much of it.

    python -m tests.faults.stalls [--queues 50000] [--bindings 100000] [--messages 3000000]
        [--connections 10000] [--only NAME] [--json FILE]

The longest turn of the loop is told for each, in milliseconds of the loop's own thread: what other processes of the
machine do is not counted, and neither is waiting for the disk. Every method of AMQP and every route of the API is
either here or named as constant, with its reason; test_stalls.py holds that against the tables of both.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import socket
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.broker.harness import publish_frames
from tests.faults.telling import tell
from warren import Broker
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.methods import Method
from warren.amqp.properties import Properties
from warren.broker.node import Node
from warren.client.session import Credentials, Session, frame_of
from warren.server.collector import spare_everyone

GOAL_MS: Final = 20.0
LIMIT_MS: Final = 100.0
PATIENCE: Final = 300.0
Q: Final = "/api/queues/%2F/"
X: Final = "/api/exchanges/%2F/"


class Watch:
    """Comes by all the time, and notes how much the loop's thread has worked since."""

    def __init__(self, broker: Broker) -> None:
        self._loop = broker._loop
        self._last = 0.0
        self.worst = 0.0
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._last = time.thread_time()
        self._loop.call_later(0.0005, self._look)

    def _look(self) -> None:
        now = time.thread_time()
        self.worst = max(self.worst, now - self._last)
        self._last = now
        self._loop.call_later(0.0005, self._look)


class Place(NamedTuple):
    """Where a broker listens that is in another process."""

    host: str
    port: int


class Client:
    """A connection with one channel."""

    def __init__(self, broker: Broker | Place, user: str = "guest") -> None:
        self.socket = socket.create_connection((broker.host, broker.port), PATIENCE)
        self.session = Session(Credentials(user, user))
        self.socket.sendall(self.session.greet())
        while not self.session.is_open:
            self.socket.sendall(self.session.answer(self._next()))

    def _next(self) -> Any:
        while (received := self.session.take()) is None:
            data = self.socket.recv(1 << 20)
            assert data, "the broker has closed the connection"
            self.session.feed(data)
        return received

    def call(self, method: Method) -> Method:
        self.socket.sendall(frame_of(method))
        answer: Method = self._next().method
        return answer

    def take(self, count: int) -> int:
        """So many deliveries; the tag of the last."""
        for _ in range(count):
            last = self._next().method
        assert isinstance(last, methods.BasicDeliver)
        return last.delivery_tag

    def close(self) -> None:
        self.socket.close()


class Crowd:
    """Very many connections of one user, each with a consumer. In a process of its own: descriptors are scarce."""

    def __init__(self, place: Place, count: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_be_a_crowd, args=(place, count, theirs), daemon=True)
        self._process.start()
        assert self._ours.poll(PATIENCE)
        self._ours.recv()

    def vanish(self) -> None:
        self._ours.send("go")
        self._process.join()


def _be_a_crowd(place: Place, count: int, pipe: Connection) -> None:
    clients = [Client(place, "crowd") for _ in range(count)]
    for client in clients:
        client.call(methods.BasicConsume(queue="q000000"))
    pipe.send("here")
    pipe.recv()


class Hunter:
    def __init__(self, queues: int, bindings: int, messages: int, connections: int, folder: Path) -> None:
        self.queues, self.bindings, self.messages, self.connections = queues, bindings, messages, connections
        self.crowd: Crowd | None = None
        self.broker = Broker(http=True, data_dir=str(folder), login_failures_max=0)
        self.broker.start()
        self.client = Client(self.broker)
        self.turns: dict[str, float] = {}
        self.units: dict[str, int] = {}
        self.watch = Watch(self.broker)

    # -- what there is -----------------------------------------------------------------------------------------------

    def furnish(self) -> None:
        self.broker.call(self._declare)
        self.fill("backlog", self.messages)

    def _declare(self, node: Node) -> None:
        vhost = node.vhosts["/"]
        vhost.add_exchange("many", "direct", False, False, False, {})
        vhost.add_exchange("twin", "direct", False, False, False, {})
        for number in range(self.queues):
            vhost.add_queue(f"q{number:06}", False, False, {})
        for number in range(self.bindings):
            vhost.add_binding("many", "queue", f"q{number % self.queues:06}", f"k{number}", {})
        for number in range(self.bindings // 10):
            vhost.add_binding("twin", "queue", "q000000", f"k{number}", {})
        for name in ("backlog", "dead", "second", "third"):
            vhost.add_queue(name, True, False, {})

    def fill(self, queue: str, count: int, size: int = 100) -> None:
        frames = publish_frames(1, b"x" * size, queue, properties=persistent())
        sender = Client(self.broker)
        batch = max(1, 1_000_000 // len(frames))
        for start in range(0, count, batch):
            sender.socket.sendall(frames * min(batch, count - start))
        # An answer to what comes last says that all of it is there.
        sender.call(methods.QueueDeclare(queue=queue, passive=True))
        sender.close()

    def gather(self) -> None:
        self.ask("PUT", "/api/users/crowd", {"password": "crowd", "tags": ""}, 201)
        self.ask("PUT", "/api/permissions/%2F/crowd", {"configure": "", "write": "", "read": ".*"}, 201)
        self.crowd = Crowd(Place(self.broker.host, self.broker.port), self.connections)

    def disperse(self) -> None:
        if self.crowd is None:
            return
        self.crowd.vanish()
        self.crowd = None
        self.until(lambda node: not any(connection.user == "crowd" for connection in node.connections.values()))
        self.ask("DELETE", "/api/users/crowd", None, 204)

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: object = None, status: int = 200) -> bytes:
        connection = http.client.HTTPConnection(self.broker.http_url.removeprefix("http://"), timeout=PATIENCE)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Authorization": "Basic " + b64encode(b"guest:guest").decode()})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status == status, (method, path, answer.status, text[:200])
        return text

    def circle(self, count: int) -> None:
        """A byte that makes `count` factorial dead letters, and somebody else who is served meanwhile."""
        self.client.call(methods.ExchangeDeclare(exchange="round", type="fanout"))
        arguments = table_of({"x-max-length": 0, "x-dead-letter-exchange": "round"})
        for number in range(count):
            self.client.call(methods.QueueDeclare(queue=f"round{number}", arguments=arguments))
            self.client.call(methods.QueueBind(queue=f"round{number}", exchange="round"))
        attacker = Client(self.broker)
        attacker.socket.sendall(publish_frames(1, b"x", exchange="round"))
        # What is answered comes behind the byte: its letters wait by then, or are through already.
        attacker.call(methods.BasicQos())
        self.until(lambda node: not node.errands.waiting)
        attacker.close()
        self.client.call(methods.ExchangeDelete(exchange="round"))
        for number in range(count):
            self.client.call(methods.QueueDelete(queue=f"round{number}"))

    def until(self, is_so: Callable[[Node], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.broker.call(is_so):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def with_held(self, settle: Callable[[int], Method]) -> None:
        """A consumer that holds very much, and settles it at once."""
        count = self.messages // 30
        self.fill("second", count)
        consumer = Client(self.broker)
        consumer.call(methods.BasicConsume(queue="second"))
        consumer.socket.sendall(frame_of(settle(consumer.take(count))))
        self.until(lambda node: node.vhosts["/"].queues["second"].unacked == 0)
        consumer.close()
        self.client.call(methods.QueuePurge(queue="second"))

    # -- hunting -----------------------------------------------------------------------------------------------------

    def hunt(self, only: str | None = None) -> None:
        for name, probe in PROBES.items():
            if only is None or only in name:
                self.broker.call(forget_most)
                self.watch.worst = 0.0
                probe(self)
                # Whatever it has begun belongs to it.
                self.until(lambda node: not node.errands.waiting)
                self.turns[name] = round(self.watch.worst * 1000, 1)
                self.units[name] = self.broker.call(lambda node: int(node.errands.budget.most))
                sys.stderr.write(f"{self.turns[name]:8.1f} ms  {name}\n")

    def stop(self) -> None:
        self.client.close()
        self.broker.stop()


def forget_most(node: Node) -> None:
    node.errands.budget.most = 0


def persistent() -> Properties:
    properties = Properties()
    properties.delivery_mode = 2
    return properties


def get(path: str) -> Callable[[Hunter], object]:
    return lambda hunter: hunter.ask("GET", path)


def policy(kind: str) -> Callable[[Hunter], object]:
    def probe(hunter: Hunter) -> None:
        rule = {"pattern": "^q", "definition": {"max-length": 1000}}
        hunter.ask("PUT", f"/api/{kind}/%2F/p", rule, 201)
        hunter.ask("DELETE", f"/api/{kind}/%2F/p", None, 204)

    return probe


def delete_queue(hunter: Hunter) -> None:
    hunter.fill("third", hunter.messages // 3)
    hunter.watch.worst = 0.0
    hunter.client.call(methods.QueueDelete(queue="third"))
    hunter.client.call(methods.QueueDeclare(queue="third", durable=True))


def purge(hunter: Hunter) -> None:
    hunter.fill("third", hunter.messages // 3)
    hunter.watch.worst = 0.0
    hunter.client.call(methods.QueuePurge(queue="third"))


def purge_by_http(hunter: Hunter) -> None:
    hunter.fill("third", hunter.messages // 3)
    hunter.watch.worst = 0.0
    hunter.ask("DELETE", Q + "third/contents", None, 204)


def delete_exchange(hunter: Hunter) -> None:
    hunter.client.call(methods.ExchangeDelete(exchange="twin"))


def fan_out(hunter: Hunter) -> None:
    """The first publish finds all queues in one piece; both go to them in many."""
    hunter.client.call(methods.ExchangeDeclare(exchange="wide", type="fanout"))
    hunter.broker.call(
        lambda node: [
            node.vhosts["/"].add_binding("wide", "queue", f"q{number:06}", "", {}) for number in range(hunter.queues)
        ]
    )
    hunter.watch.worst = 0.0
    hunter.client.socket.sendall(publish_frames(1, b"x", exchange="wide") * 2)
    hunter.client.call(methods.QueueDeclare(queue="q000000", passive=True))


def commit(hunter: Hunter) -> None:
    client = Client(hunter.broker)
    client.call(methods.TxSelect())
    client.socket.sendall(publish_frames(1, b"x", "third", properties=persistent()) * (hunter.messages // 30))
    hunter.watch.worst = 0.0
    assert isinstance(client.call(methods.TxCommit()), methods.TxCommitOk)
    client.close()
    hunter.client.call(methods.QueuePurge(queue="third"))


def roll_back(hunter: Hunter) -> None:
    count = hunter.messages // 30
    hunter.fill("second", count)
    client = Client(hunter.broker)
    client.call(methods.TxSelect())
    client.call(methods.BasicConsume(queue="second"))
    tag = client.take(count)
    hunter.watch.worst = 0.0
    client.socket.sendall(frame_of(methods.BasicAck(delivery_tag=tag, multiple=True)))
    assert isinstance(client.call(methods.TxRollback()), methods.TxRollbackOk)
    client.close()
    hunter.until(lambda node: node.vhosts["/"].queues["second"].unacked == 0)
    hunter.client.call(methods.QueuePurge(queue="second"))


def import_definitions(hunter: Hunter) -> None:
    queues = [{"name": f"i{number}", "durable": False} for number in range(hunter.queues // 2)]
    bindings = [
        {"source": "amq.topic", "destination": each["name"], "destination_type": "queue", "routing_key": "a.b"}
        for each in queues
    ]
    hunter.ask("POST", "/api/definitions/%2F", {"queues": queues, "bindings": bindings}, 204)


def delete_vhost(hunter: Hunter) -> None:
    hunter.ask("PUT", "/api/vhosts/full", None, 201)
    queues = [{"name": f"i{number}", "durable": True} for number in range(hunter.queues // 5)]
    hunter.ask("POST", "/api/definitions/full", {"queues": queues}, 204)
    hunter.watch.worst = 0.0
    hunter.ask("DELETE", "/api/vhosts/full", None, 204)


def lose_connection(hunter: Hunter) -> None:
    owner = Client(hunter.broker)
    for number in range(hunter.queues // 25):
        owner.call(methods.QueueDeclare(queue=f"own{number}", exclusive=True))
    owner.close()
    hunter.until(lambda node: "own0" not in node.vhosts["/"].queues)


def get_large(hunter: Hunter) -> None:
    hunter.fill("third", 3, 16 << 20)
    hunter.watch.worst = 0.0
    hunter.ask("POST", Q + "third/get", {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"})


def search(hunter: Hunter) -> None:
    hunter.ask("GET", Q + "backlog/messages?routing_key=" + "%2A%3F" * 250)


def move(hunter: Hunter) -> None:
    hunter.ask("POST", Q + "backlog/move", {"queue": "second", "count": 5000, "filter": {"body": "x" * 50}})
    hunter.client.call(methods.QueuePurge(queue="second"))


def expire(hunter: Hunter) -> None:
    hunter.client.call(methods.QueueDeclare(queue="short", arguments=table_of({"x-message-ttl": 1000})))
    hunter.fill("short", hunter.messages // 10)
    hunter.until(lambda node: node.vhosts["/"].queues["short"].backing.length == 0)


def trim(hunter: Hunter) -> None:
    hunter.fill("third", hunter.messages // 10)
    hunter.watch.worst = 0.0
    hunter.ask("PUT", "/api/policies/%2F/t", {"pattern": "^third$", "definition": {"max-length": 1}}, 201)
    hunter.until(lambda node: node.vhosts["/"].queues["third"].backing.length == 1)
    hunter.ask("DELETE", "/api/policies/%2F/t", None, 204)


def nack_to_dead(hunter: Hunter) -> None:
    arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    hunter.client.call(methods.QueueDeclare(queue="dying", arguments=table_of(arguments)))
    count = hunter.messages // 100
    hunter.fill("dying", count)
    consumer = Client(hunter.broker)
    consumer.call(methods.BasicConsume(queue="dying"))
    consumer.socket.sendall(
        frame_of(methods.BasicNack(delivery_tag=consumer.take(count), multiple=True, requeue=False))
    )
    hunter.until(lambda node: node.vhosts["/"].queues["dead"].backing.length >= count)
    consumer.close()


def with_crowd(act: Callable[[Hunter], object]) -> Callable[[Hunter], object]:
    def probe(hunter: Hunter) -> None:
        hunter.gather()
        hunter.watch.worst = 0.0
        act(hunter)
        worst = hunter.watch.worst
        hunter.disperse()
        hunter.watch.worst = worst

    return probe


def delete_user(hunter: Hunter) -> None:
    hunter.ask("DELETE", "/api/users/crowd", None, 204)
    hunter.ask("PUT", "/api/users/crowd", {"password": "crowd", "tags": ""}, 201)


def evil_expression(hunter: Hunter) -> None:
    hunter.ask("GET", "/api/queues?page=1&use_regex=true&name=" + "(%3F%3D.*a.*a.*q)" * 40)


PROBES: Final[dict[str, Callable[[Hunter], object]]] = {
    "basic.publish: dead letters by the factorial": lambda hunter: hunter.circle(8 if hunter.queues >= 10_000 else 5),
    "basic.publish: a fanout to all queues": fan_out,
    "queue.purge": purge,
    "queue.delete": delete_queue,
    "exchange.delete": delete_exchange,
    "basic.nack": nack_to_dead,
    "basic.ack": lambda hunter: hunter.with_held(lambda tag: methods.BasicAck(delivery_tag=tag, multiple=True)),
    "basic.recover": lambda hunter: hunter.with_held(lambda tag: methods.ChannelClose(reply_code=200)),
    "tx.commit": commit,
    "tx.rollback": roll_back,
    "connection.close: with exclusive queues": lose_connection,
    "time: messages expire": expire,
    "time: a limit is lowered": trim,
    "GET /api/queues?page=1&page_size=100": get("/api/queues?page=1&page_size=100"),
    "GET /api/queues?sort": get("/api/queues?page=3&sort=message_stats.publish_details.rate&sort_reverse=true"),
    "GET /api/queues?use_regex": evil_expression,
    "GET /api/queues": get("/api/queues"),
    "GET /api/queues/{vhost}": get("/api/queues/%2F?columns=name,messages"),
    "GET /api/queues/{vhost}/{name}/bindings": get(Q + "q000000/bindings"),
    "GET /api/exchanges/{vhost}/{name}/bindings/source": get(X + "many/bindings/source"),
    "GET /api/exchanges/{vhost}/{name}/bindings/destination": get(X + "many/bindings/destination"),
    "GET /api/bindings": get("/api/bindings"),
    "GET /api/bindings/{vhost}": get("/api/bindings/%2F"),
    "GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}": get("/api/bindings/%2F/e/many/q/q000000"),
    "GET /api/exchanges": get("/api/exchanges"),
    "GET /api/consumers": with_crowd(get("/api/consumers")),
    "GET /api/connections": with_crowd(get("/api/connections")),
    "GET /api/channels": with_crowd(get("/api/channels")),
    "DELETE /api/connections/username/{user}": with_crowd(
        lambda hunter: hunter.ask("DELETE", "/api/connections/username/crowd", None, 204)
    ),
    "DELETE /api/permissions/{vhost}/{user}": with_crowd(
        lambda hunter: hunter.ask("DELETE", "/api/permissions/%2F/crowd", None, 204)
    ),
    "DELETE /api/users/{user}": with_crowd(delete_user),
    "time: all clients vanish": with_crowd(lambda hunter: hunter.disperse()),
    "GET /api/overview": get("/api/overview"),
    "GET /api/vhosts": get("/api/vhosts"),
    "GET /api/vhosts/{vhost}": get("/api/vhosts/%2F"),
    "GET /api/definitions": get("/api/definitions"),
    "GET /api/definitions/{vhost}": get("/api/definitions/%2F"),
    "POST /api/definitions/{vhost}": import_definitions,
    "GET /metrics": get("/metrics"),
    "GET /metrics/per-object": get("/metrics/per-object"),
    "PUT /api/policies/{vhost}/{name}": policy("policies"),
    "PUT /api/operator-policies/{vhost}/{name}": policy("operator-policies"),
    "DELETE /api/vhosts/{vhost}": delete_vhost,
    "DELETE /api/queues/{vhost}/{name}/contents": purge_by_http,
    "POST /api/queues/{vhost}/{name}/get": get_large,
    "GET /api/queues/{vhost}/{name}/messages": search,
    "POST /api/queues/{vhost}/{name}/move": move,
}


# Everything else, by the reason why it is not hunted.
CONSTANT: Final[dict[str, str]] = {
    "one thing by its name": """
        access.request basic.cancel basic.get basic.qos basic.reject channel.flow channel.open confirm.select
        connection.open connection.secure-ok connection.start-ok connection.tune-ok connection.update-secret
        exchange.bind exchange.declare exchange.unbind queue.bind queue.declare queue.unbind tx.select
        PUT:/api/vhosts/{vhost} POST:/api/vhosts/{vhost}/start/{name}
        GET:/api/exchanges/{vhost}/{name} PUT:/api/exchanges/{vhost}/{name}
        PUT:/api/queues/{vhost}/{name} PATCH:/api/queues/{vhost}/{name} POST:/api/queues/{vhost}/{name}/actions
        POST:/api/bindings/{vhost}/e/{source}/{kind}/{destination}
        GET:/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}
        DELETE:/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}
        GET:/api/connections/{name} DELETE:/api/connections/{name} GET:/api/channels/{name}
        POST:/api/exchanges/{vhost}/{name}/publish
        GET:/api/queues/{vhost}/{name}/messages/{sequence} DELETE:/api/queues/{vhost}/{name}/messages/{sequence}
        POST:/api/queues/{vhost}/{name}/messages/{sequence}/move
        DELETE:/api/scheduled/{vhost}/{name}/{sequence} GET:/api/traces/{id} POST:/api/traces/dry-run
        GET:/api/users/{user} PUT:/api/users/{user}
        GET:/api/permissions/{vhost}/{user} PUT:/api/permissions/{vhost}/{user}
        GET:/api/topic-permissions/{vhost}/{user} PUT:/api/topic-permissions/{vhost}/{user}
        DELETE:/api/topic-permissions/{vhost}/{user}
        GET:/api/policies/{vhost}/{name} GET:/api/operator-policies/{vhost}/{name}
        PUT:/api/vhost-limits/{vhost}/{name} DELETE:/api/vhost-limits/{vhost}/{name}
        PUT:/api/user-limits/{user}/{name} DELETE:/api/user-limits/{user}/{name} GET:/api/user-limits/{user}
        GET:/api/parameters/{component}/{vhost}/{name} PUT:/api/parameters/{component}/{vhost}/{name}
        DELETE:/api/parameters/{component}/{vhost}/{name}
        GET:/api/global-parameters/{name} PUT:/api/global-parameters/{name} DELETE:/api/global-parameters/{name}
        GET:/api/pipelines/{vhost}/{name} PUT:/api/pipelines/{vhost}/{name} DELETE:/api/pipelines/{vhost}/{name}""",
    "about the node as a whole, from numbers that are counted": """
        GET:/api/login POST:/api/login POST:/api/logout GET:/api/auth GET:/api/auth/attempts/{name}
        DELETE:/api/auth/attempts/{name} GET:/api/nodes GET:/api/nodes/{name} GET:/api/nodes/{name}/memory
        GET:/api/whoami GET:/api/cluster-name PUT:/api/cluster-name GET:/api/extensions GET:/api/feature-flags
        PUT:/api/feature-flags/{name}/enable GET:/api/deprecated-features GET:/api/deprecated-features/used
        POST:/api/rebalance/queues DELETE:/api/reset GET:/api/version GET:/api/traces/settings PUT:/api/traces/settings
        GET:/api/health/checks/alarms GET:/api/health/checks/local-alarms
        GET:/api/health/checks/port-listener/{port} GET:/api/health/checks/protocol-listener/{protocol}
        GET:/api/health/checks/virtual-hosts GET:/api/health/checks/certificate-expiration/{within}/{unit}
        GET:/api/health/checks/node-is-mirror-sync-critical GET:/api/health/checks/node-is-quorum-critical
        GET:/api/healthchecks/node GET:/api/healthchecks/node/{name} GET:/api/aliveness-test/{vhost}
        GET:/api/openapi.json GET:/ GET:/static/{path:path}""",
    "as much as operators have set up by hand": """
        GET:/api/users GET:/api/users/without-permissions POST:/api/users/bulk-delete
        GET:/api/users/{user}/permissions GET:/api/users/{user}/topic-permissions
        GET:/api/permissions GET:/api/vhosts/{vhost}/permissions
        GET:/api/topic-permissions GET:/api/vhosts/{vhost}/topic-permissions
        GET:/api/policies GET:/api/policies/{vhost} GET:/api/operator-policies GET:/api/operator-policies/{vhost}
        GET:/api/vhost-limits GET:/api/vhost-limits/{vhost} GET:/api/user-limits
        GET:/api/parameters GET:/api/parameters/{component} GET:/api/parameters/{component}/{vhost}
        GET:/api/global-parameters GET:/api/pipelines GET:/api/pipelines/{vhost}""",
    "the way of one that is hunted": """
        basic.consume basic.recover-async channel.close
        GET:/api/queues/detailed GET:/api/exchanges/{vhost} GET:/api/consumers/{vhost} GET:/metrics/detailed
        GET:/api/vhosts/{vhost}/connections GET:/api/connections/username/{user}
        GET:/api/connections/{name}/channels GET:/api/vhosts/{vhost}/channels
        GET:/api/queues/{vhost}/{name}
        DELETE:/api/queues/{vhost}/{name} DELETE:/api/exchanges/{vhost}/{name}
        DELETE:/api/policies/{vhost}/{name} DELETE:/api/operator-policies/{vhost}/{name}
        POST:/api/definitions GET:/api/all-configuration POST:/api/all-configuration
        POST:/api/queues/{vhost}/{name}/redrive
        GET:/api/scheduled GET:/api/scheduled/{vhost} GET:/api/scheduled/{vhost}/{name}
        GET:/api/traces DELETE:/api/traces""",
}


@dataclass
class Report:
    queues: int
    bindings: int
    messages: int
    connections: int
    worst_ms: float = 0.0
    worst: str = ""
    over_goal: dict[str, float] = field(default_factory=dict)
    turns: dict[str, float] = field(default_factory=dict)
    # The most that a turn has cost, as errands.py counts it.
    units: dict[str, int] = field(default_factory=dict)


def hunt(queues: int, bindings: int, messages: int, connections: int, only: str | None = None) -> Report:
    with tempfile.TemporaryDirectory(prefix="warren-stalls-") as folder:
        hunter = Hunter(queues, bindings, messages, connections, Path(folder))
        try:
            hunter.furnish()
            hunter.hunt(only)
        finally:
            hunter.stop()
    turns = hunter.turns
    worst = max(turns, key=lambda name: turns[name])
    over = {name: turn for name, turn in turns.items() if turn > GOAL_MS}
    return Report(queues, bindings, messages, connections, turns[worst], worst, over, turns, hunter.units)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--queues", type=int, default=50_000)
    parser.add_argument("--bindings", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--only", help="probes whose names have this in them")
    parser.add_argument("--json", type=Path, help="write the report to this file, too")
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)
    # As `warren serve` does.
    spare_everyone()
    report = hunt(options.queues, options.bindings, options.messages, options.connections, options.only)
    tell(asdict(report), options.json)
    sys.exit(report.worst_ms > LIMIT_MS)


if __name__ == "__main__":
    main()
