"""Every method that touches a resource, and exactly the rights it needs: with them it works, without any it does not.

One table, so that a method which forgets a check shows up here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.broker.still_world import Client, new_node
from warren.amqp.fields import Table, table_of
from warren.amqp.frames import content_frames
from warren.amqp.methods import (
    METHODS,
    BasicConsume,
    BasicGet,
    BasicPublish,
    ChannelClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from warren.amqp.properties import Properties, encode_properties
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.errors import AccessRefused

Right = tuple[str, str, str]

CONFIGURE_Q: Right = ("configure", "queue", "q")
READ_Q: Right = ("read", "queue", "q")
WRITE_Q: Right = ("write", "queue", "q")
CONFIGURE_E: Right = ("configure", "exchange", "e")
READ_E: Right = ("read", "exchange", "e")
WRITE_E: Right = ("write", "exchange", "e")
WRITE_OTHER: Right = ("write", "exchange", "other")
WRITE_DEFAULT: Right = ("write", "exchange", "amq.default")


@dataclass
class Case:
    """In the order in which they are asked for; `needs` the lot, or any one of them."""

    name: str
    method: Method
    needs: list[Right]
    any_will_do: bool = False
    existing: list[str] = field(default_factory=lambda: ["q", "e", "other"])


def dead_letters() -> Table:
    return table_of({"x-dead-letter-exchange": "other"})


def alternate() -> Table:
    return table_of({"alternate-exchange": "other"})


CASES = [
    Case("queue.declare, new", QueueDeclare(queue="q"), [CONFIGURE_Q], existing=[]),
    Case("queue.declare, there", QueueDeclare(queue="q", durable=True), [CONFIGURE_Q]),
    Case("queue.declare, passive", QueueDeclare(queue="q", passive=True), [READ_Q, WRITE_Q, CONFIGURE_Q], True),
    Case(
        "queue.declare with dead letters",
        QueueDeclare(queue="q", arguments=dead_letters()),
        [CONFIGURE_Q, READ_Q, WRITE_OTHER],
        existing=["other"],
    ),
    Case("queue.delete", QueueDelete(queue="q"), [CONFIGURE_Q]),
    Case("queue.purge", QueuePurge(queue="q"), [READ_Q]),
    Case("queue.bind", QueueBind(queue="q", exchange="e", routing_key="k"), [WRITE_Q, READ_E]),
    Case("queue.unbind", QueueUnbind(queue="q", exchange="e", routing_key="k"), [WRITE_Q, READ_E]),
    Case("exchange.declare, new", ExchangeDeclare(exchange="e", type="direct"), [CONFIGURE_E], existing=[]),
    Case("exchange.declare, there", ExchangeDeclare(exchange="e", type="topic", durable=True), [CONFIGURE_E]),
    Case(
        "exchange.declare, passive", ExchangeDeclare(exchange="e", passive=True), [READ_E, WRITE_E, CONFIGURE_E], True
    ),
    Case(
        "exchange.declare with alternate",
        ExchangeDeclare(exchange="e", type="direct", arguments=alternate()),
        [CONFIGURE_E, READ_E, WRITE_OTHER],
        existing=["other"],
    ),
    Case("exchange.delete", ExchangeDelete(exchange="e"), [CONFIGURE_E]),
    Case("exchange.bind", ExchangeBind(source="e", destination="other"), [WRITE_OTHER, READ_E]),
    Case("exchange.unbind", ExchangeUnbind(source="e", destination="other"), [WRITE_OTHER, READ_E]),
    Case("basic.consume", BasicConsume(queue="q"), [READ_Q]),
    Case("basic.get", BasicGet(queue="q"), [READ_Q]),
    Case("basic.publish", BasicPublish(exchange="e", routing_key="k"), [WRITE_E]),
    Case("basic.publish to the default exchange", BasicPublish(exchange="", routing_key="q"), [WRITE_DEFAULT]),
]
IDS = [case.name for case in CASES]


def prepared(case: Case, rights: list[Right]) -> Client:
    node = new_node()
    vhost = node.add_vhost("/")
    for name in case.existing:
        if name == "q":
            vhost.add_queue("q", True, False, {})
        else:
            vhost.add_exchange(name, "topic", True, False, False, {})
    administer.put_user(node, User("ann"))
    patterns: dict[str, str] = {}
    for action in ("configure", "write", "read"):
        names = [name.replace(".", "\\.") for granted, _, name in rights if granted == action]
        patterns[action] = f"^({'|'.join(names)})$" if names else ""
    administer.set_permission(node, "ann", "/", patterns["configure"], patterns["write"], patterns["read"])
    return Client(node, "ann")


def refusal_of(client: Client, method: Method) -> str:
    """The text of the channel.close that came; empty when none did."""
    client.send(method)
    if isinstance(method, BasicPublish):
        client.connection.feed(content_frames(1, encode_properties(Properties()), b"body", 131072))
    closes = [heard for heard in client.heard() if isinstance(heard, ChannelClose)]
    if not closes:
        return ""
    (close,) = closes
    assert close.reply_code == 403
    return close.reply_text


def text_of(right: Right) -> str:
    action, kind, name = right
    return f"ACCESS_REFUSED - {action} access to {kind} '{name}' in vhost '/' refused for user 'ann'"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_with_exactly_these_rights_it_works(case: Case) -> None:
    if not case.any_will_do:
        assert refusal_of(prepared(case, case.needs), case.method) == ""
        return
    for right in case.needs:
        assert refusal_of(prepared(case, [right]), case.method) == ""


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_without_any_one_of_them_it_is_refused_in_rabbitmqs_words(case: Case) -> None:
    if case.any_will_do:
        assert refusal_of(prepared(case, []), case.method) == text_of(case.needs[-1])
        return
    for missing in case.needs:
        others = [right for right in case.needs if right != missing]
        assert refusal_of(prepared(case, others), case.method) == text_of(missing)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_refused_method_changes_nothing(case: Case) -> None:
    client = prepared(case, [])
    vhost = client.node.vhosts["/"]
    before = (sorted(vhost.queues), sorted(vhost.exchanges))
    assert refusal_of(client, case.method) != ""
    assert (sorted(vhost.queues), sorted(vhost.exchanges)) == before
    assert all(not exchange.bindings for name, exchange in vhost.exchanges.items() if name)


def with_topic_permission(node: Node) -> None:
    administer.set_topic_permission(node, "ann", "/", "e", "^w\\.", "^r\\.")


@pytest.mark.parametrize(
    ("method", "needs", "action"),
    [
        (BasicPublish(exchange="e", routing_key="{}.1"), [WRITE_E], "write"),
        (QueueBind(queue="q", exchange="e", routing_key="{}.1"), [WRITE_Q, READ_E], "read"),
        (ExchangeBind(source="e", destination="other", routing_key="{}.1"), [WRITE_OTHER, READ_E], "read"),
    ],
    ids=["basic.publish", "queue.bind", "exchange.bind"],
)
def test_topic_exchanges_look_at_the_key_too(method: Method, needs: list[Right], action: str) -> None:
    assert isinstance(method, BasicPublish | QueueBind | ExchangeBind)
    template = method.routing_key
    for letter, allowed in (("w", action == "write"), ("r", action == "read"), ("x", False)):
        method.routing_key = template.format(letter)
        client = prepared(Case("topic", method, needs), needs)
        with_topic_permission(client.node)
        refusal = (
            f"ACCESS_REFUSED - {action} access to topic '{letter}.1' in exchange 'e' in vhost '/' "
            "refused for user 'ann'"
        )
        assert refusal_of(client, method) == ("" if allowed else refusal)
    method.routing_key = template


def test_a_right_that_is_taken_away_is_gone_for_the_next_publish() -> None:
    client = prepared(Case("publish", BasicPublish(), [WRITE_E]), [WRITE_E])
    publish = BasicPublish(exchange="e", routing_key="k")
    assert refusal_of(client, publish) == ""
    assert refusal_of(client, publish) == ""
    administer.set_permission(client.node, "ann", "/", "", "", "")
    assert refusal_of(client, publish) == text_of(WRITE_E)


def test_a_right_that_is_taken_away_is_gone_for_the_next_get() -> None:
    client = prepared(Case("get", BasicGet(), [READ_Q]), [READ_Q])
    assert refusal_of(client, BasicGet(queue="q")) == ""
    administer.set_permission(client.node, "ann", "/", "", "", "")
    assert refusal_of(client, BasicGet(queue="q")) == text_of(READ_Q)


@pytest.mark.parametrize(
    ("method", "lacks"),
    [
        (BasicGet(queue="p"), ("read", "queue", "p")),
        (QueueDelete(queue="q"), CONFIGURE_Q),
        (QueueBind(queue="q", exchange="e"), WRITE_Q),
    ],
    ids=["another queue", "another right", "a right of two"],
)
def test_what_was_allowed_last_allows_nothing_else(method: Method, lacks: Right) -> None:
    client = prepared(Case("get", BasicGet(), [READ_Q]), [READ_Q, READ_E])
    client.node.vhosts["/"].add_queue("p", True, False, {})
    for _ in range(2):
        assert refusal_of(client, BasicGet(queue="q")) == ""
    assert refusal_of(client, method) == text_of(lacks)


# What clients send that touches nobody's queue or exchange: channel 0 and channels, settling what one was given, modes.
NEEDS_NOTHING = {
    "connection.start-ok", "connection.secure-ok", "connection.tune-ok", "connection.open", "connection.close",
    "connection.close-ok", "connection.update-secret", "channel.open", "channel.flow", "channel.flow-ok",
    "channel.close", "channel.close-ok", "access.request", "basic.qos", "basic.cancel", "basic.cancel-ok", "basic.ack",
    "basic.reject", "basic.nack", "basic.recover", "basic.recover-async", "confirm.select", "tx.select", "tx.commit",
    "tx.rollback",
}  # fmt: skip


# What only the broker sends, besides the answers ending in -ok.
SENT_BY_BROKER = {
    "connection.start", "connection.secure", "connection.tune", "connection.blocked", "connection.unblocked",
    "basic.return", "basic.deliver", "basic.get-empty",
}  # fmt: skip


def test_no_method_that_clients_send_is_missing() -> None:
    names = {method.name for method in METHODS} - SENT_BY_BROKER
    sent = {name for name in names if not name.endswith("-ok") or name in NEEDS_NOTHING}
    assert sent == {case.method.name for case in CASES} | NEEDS_NOTHING


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_user_of_another_virtual_host_does_not_get_as_far(case: Case) -> None:
    """Rights are those of one virtual host: who has all of them elsewhere cannot even open this one."""
    node = prepared(case, case.needs).node
    node.add_vhost("other")
    administer.put_user(node, User("bob"))
    administer.set_permission(node, "bob", "other", ".*", ".*", ".*")
    with pytest.raises(AccessRefused):
        node.access.check("bob", "/", *case.needs[0][1:], case.needs[0][0])
    assert not node.access.may_access_vhost("bob", "/")
