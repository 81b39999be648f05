"""Definitions files: what RabbitMQ wrote comes in whole, and goes out as it came."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.broker.still_world import Client, KeepingRecorder, new_node
from warren.amqp.fields import Field, Table
from warren.amqp.methods import QueueDeclare
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.operate.definitions import DefinitionsError, export, import_, restore
from warren.broker.rules.access import User

FROM_RABBITMQ = Path(__file__).with_name("rabbitmq-3.10.8-definitions.json")

Items = list[dict[str, object]]


class PlainHasher:
    """Salts would make every export another."""

    def hash(self, password: str) -> tuple[str, str]:
        return "rabbit_password_hashing_sha256", password.upper()


def from_rabbitmq() -> dict[str, object]:
    document = json.loads(FROM_RABBITMQ.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def items(document: dict[str, object], section: str) -> Items:
    found = document[section]
    assert isinstance(found, list)
    return found


def in_order(items: Items) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def node_with(document: dict[str, object], recorder: KeepingRecorder | None = None) -> Node:
    node = new_node(recorder)
    import_(node, document)
    return node


def refusal(document: dict[str, object], vhost: str | None = None) -> str:
    recorder = KeepingRecorder()
    node = new_node(recorder)
    node.add_vhost("/")
    administer.put_user(node, User("guest"))
    before = (export(node), dict(recorder.rows))
    with pytest.raises(DefinitionsError) as caught:
        import_(node, document, vhost)
    # All or nothing.
    assert (export(node), recorder.rows) == before
    return str(caught.value)


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section", ["users", "permissions", "topic_permissions", "parameters", "policies", "exchanges", "bindings"]
)
def test_what_rabbitmq_exports_comes_back_the_same(section: str) -> None:
    document = from_rabbitmq()
    assert in_order(items(export(node_with(document)), section)) == in_order(items(document, section))


def test_queues_come_back_with_their_type() -> None:
    document = from_rabbitmq()
    exported = items(export(node_with(document)), "queues")
    assert [(queue["name"], queue.pop("type")) for queue in exported] == [
        ("q1", "classic"),
        ("q3", "quorum"),
        ("qt", "classic"),
    ]
    assert in_order(exported) == in_order(items(document, "queues"))


def test_what_was_imported_is_in_effect() -> None:
    node = node_with(from_rabbitmq())
    vhost = node.vhosts["v2"]
    assert vhost.limits == {"max-queues": 5}
    assert vhost.queues["q1"].policy == "limits"
    assert vhost.queues["q1"].options.max_length == 5
    assert vhost.exchanges["e1"].alternate == "amq.fanout"
    assert node.access.is_allowed("lim", "v2", "e1", "write")
    assert not node.access.is_allowed("lim", "v2", "q1", "write")
    lim = node.access.users.get("lim")
    assert lim is not None
    assert (lim.tags, lim.hashing_algorithm) == (["monitoring", "foo"], "rabbit_password_hashing_sha256")


def test_bookkeeping_of_rabbitmq_stays_behind() -> None:
    names = [item["name"] for item in items(export(node_with(from_rabbitmq())), "global_parameters")]
    assert names == ["gp"]


def test_an_export_can_be_imported_again_and_again() -> None:
    node = node_with(from_rabbitmq())
    exported = export(node)
    import_(node, copy.deepcopy(exported))
    assert export(node) == exported
    assert export(node_with(copy.deepcopy(exported))) == exported


def test_an_export_says_where_it_comes_from() -> None:
    node = new_node()
    assert list(export(node)) == [
        "rabbit_version",
        "rabbitmq_version",
        "product_name",
        "product_version",
        "vhosts",
        "users",
        "permissions",
        "topic_permissions",
        "global_parameters",
        "parameters",
        "policies",
        "exchanges",
        "queues",
        "bindings",
    ]


def test_one_vhost_is_exported_without_users_and_can_become_another() -> None:
    node = node_with(from_rabbitmq())
    exported = export(node, "v2")
    assert set(exported) >= {"parameters", "policies", "exchanges", "queues", "bindings"}
    assert not set(exported) & {"users", "permissions", "vhosts", "global_parameters"}
    # Parameters and policies name it all the same, as in RabbitMQ's files.
    unnamed = {section: exported[section] for section in ("exchanges", "queues", "bindings")}
    assert '"vhost"' not in json.dumps(unnamed)
    node.add_vhost("copy")
    import_(node, exported, "copy")
    copied = json.dumps(export(node, "copy")).replace('"vhost": "copy"', '"vhost": "v2"')
    assert json.loads(copied) == exported
    assert export(node, "v2") == exported


def test_what_belongs_to_a_connection_or_to_every_broker_is_not_exported() -> None:
    node = new_node()
    vhost = node.add_vhost("/")
    administer.put_user(node, User("ann"))
    administer.set_permission(node, "ann", "/", ".*", ".*", ".*")
    client = Client(node, "ann")
    client.send(QueueDeclare(queue="mine", exclusive=True))
    client.send(QueueDeclare(queue="", durable=True))
    assert [heard.name for heard in client.heard()].count("queue.declare-ok") == 2
    generated = next(name for name in vhost.queues if name.startswith("amq.gen-"))
    vhost.add_queue("kept", True, False, {})
    for queue in ("mine", generated, "kept"):
        vhost.add_binding("amq.direct", "queue", queue, "k", {})
    exported = export(node)
    assert [queue["name"] for queue in items(exported, "queues")] == ["kept"]
    assert exported["exchanges"] == []
    assert [binding["destination"] for binding in items(exported, "bindings")] == ["kept"]


# -- importing ---------------------------------------------------------------------------------------------------------


def test_importing_never_changes_what_is_declared() -> None:
    node = new_node()
    vhost = node.add_vhost("/")
    vhost.add_queue("q", True, False, {})
    vhost.add_exchange("e", "topic", True, False, False, {})
    import_(
        node,
        {
            "queues": [{"name": "q", "vhost": "/", "durable": False}],
            "exchanges": [{"name": "e", "vhost": "/", "type": "direct"}],
        },
    )
    assert vhost.queues["q"].durable
    assert vhost.exchanges["e"].type == "topic"


def test_reserved_names_and_default_bindings_are_passed_over() -> None:
    node = new_node()
    node.add_vhost("/")
    default = {"source": "", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "q"}
    import_(
        node,
        {
            "queues": [{"name": "amq.q", "vhost": "/"}, {"name": "q", "vhost": "/"}],
            "exchanges": [
                {"name": "amq.e", "vhost": "/", "type": "topic"},
                {"name": "", "vhost": "/", "type": "direct"},
            ],
            "bindings": [{**default, "source": "amq.direct", "destination": "amq.q"}, default],
        },
    )
    assert list(node.vhosts["/"].queues) == ["q"]
    assert items(export(node), "bindings") == []
    assert items(export(node), "exchanges") == []


def test_a_document_may_bring_all_that_it_refers_to() -> None:
    binding = {"source": "e", "vhost": "new", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    node = new_node()
    import_(
        node,
        {
            "bindings": [
                binding,
                {**binding, "source": "amq.topic", "destination": "e", "destination_type": "exchange"},
            ],
            "queues": [{"name": "q", "vhost": "new"}],
            "exchanges": [{"name": "e", "vhost": "new", "type": "direct"}],
            "permissions": [{"user": "u", "vhost": "new", "configure": "", "write": "", "read": ""}],
            "users": [{"name": "u", "tags": ""}],
            "vhosts": [{"name": "new"}],
        },
    )
    assert len(items(export(node), "bindings")) == 2
    assert node.access.may_access_vhost("u", "new")


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({"default_queue_type": "quorum"}, "quorum"),
        ({"default_queue_type": "rabbit_quorum_queue"}, "quorum"),
        ({"metadata": {"default_queue_type": "quorum"}}, "quorum"),
        ({"default_queue_type": "undefined"}, None),
        ({}, None),
    ],
)
def test_a_vhosts_default_queue_type_is_read_in_all_spellings(fields: dict[str, object], type_: str | None) -> None:
    node = node_with({"vhosts": [{"name": "v", **fields}], "queues": [{"name": "q", "vhost": "v"}]})
    assert node.vhosts["v"].default_queue_type == type_
    assert node.vhosts["v"].queues["q"].type == (type_ or "classic")


def test_a_vhosts_metadata_is_read() -> None:
    metadata = {"description": "d", "tags": ["a", "b"]}
    for fields in ({"metadata": metadata}, metadata, {"description": "d", "tags": "a, b"}):
        vhost = node_with({"vhosts": [{"name": "v", **fields}]}).vhosts["v"]
        assert (vhost.description, vhost.tags) == ("d", ["a", "b"])


def test_passwords_are_hashed_where_someone_can() -> None:
    node = new_node()
    import_(node, {"users": [{"name": "u", "password": "pw", "tags": "a, b"}]}, hasher=PlainHasher())
    user = node.access.users.get("u")
    assert user is not None
    assert (user.password_hash, user.tags) == ("PW", ["a", "b"])


def test_a_user_keeps_limits_that_the_document_does_not_name() -> None:
    node = new_node()
    administer.put_user(node, User("u", limits={"max-channels": 3}))
    import_(node, {"users": [{"name": "u", "password_hash": "AAAA", "tags": []}]})
    user = node.access.users.get("u")
    assert user is not None
    assert user.limits == {"max-channels": 3}
    import_(node, {"users": [{"name": "u", "password_hash": "AAAA", "tags": [], "limits": {}}]})
    user = node.access.users.get("u")
    assert user is not None
    assert user.limits == {}


def test_imported_policies_apply_to_queues_that_were_there() -> None:
    node = new_node()
    queue = node.add_vhost("/").add_queue("q", True, False, {})
    import_(node, {"policies": [{"vhost": "/", "name": "p", "pattern": ".*", "definition": {"max-length": 3}}]})
    assert (queue.policy, queue.options.max_length) == ("p", 3)


QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = {"name": "e", "vhost": "/", "type": "direct"}
BINDING = {"source": "amq.direct", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "k"}
POLICY = {"vhost": "/", "name": "p", "pattern": ".*", "definition": {"max-length": 1}}
PERMISSION = {"user": "guest", "vhost": "/", "configure": "", "write": "", "read": ""}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"queues": [QUEUE, QUEUE, QUEUE, {**QUEUE, "vhost": "x"}]}, "queues[3].vhost: no vhost 'x'"),
        ({"queues": 5}, "queues: must be a list"),
        ({"queues": [5]}, "queues[0]: must be an object"),
        ({"queues": [{"vhost": "/"}]}, "queues[0].name: is missing"),
        ({"queues": [{"name": "q"}]}, "queues[0].vhost: is missing"),
        ({"queues": [{**QUEUE, "name": 5}]}, "queues[0].name: must be a string"),
        ({"queues": [{**QUEUE, "name": ""}]}, "queues[0].name: is empty"),
        ({"queues": [{**QUEUE, "name": "é" * 128}]}, "queues[0].name: is longer than 255 bytes"),
        ({"queues": [{**QUEUE, "durable": "yes"}]}, "queues[0].durable: must be true or false"),
        ({"queues": [{**QUEUE, "arguments": 5}]}, "queues[0].arguments: must be an object"),
        (
            {"queues": [{**QUEUE, "arguments": {"x-max-length": -1}}]},
            "queues[0].arguments: invalid arg 'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}",
        ),
        (
            {"queues": [{**QUEUE, "arguments": {"x-big": 2**70}}]},
            "queues[0].arguments: integer too large for a field of type long",
        ),
        (
            {"queues": [{**QUEUE, "arguments": {"x-queue-type": "nope"}}]},
            "queues[0].arguments.x-queue-type: unsupported queue type 'nope'",
        ),
        (
            {"queues": [{**QUEUE, "durable": False, "arguments": {"x-queue-type": "quorum"}}]},
            "queues[0].durable: a quorum queue is durable and never deleted automatically",
        ),
        ({"exchanges": [{**EXCHANGE, "type": "nope"}]}, "exchanges[0]: unknown exchange type 'nope'"),
        ({"exchanges": [{"name": "e", "vhost": "/"}]}, "exchanges[0].type: is missing"),
        ({"bindings": [BINDING]}, "bindings[0].destination: no queue 'q' in vhost '/'"),
        (
            {"queues": [QUEUE], "bindings": [{**BINDING, "source": "e"}]},
            "bindings[0].source: no exchange 'e' in vhost '/'",
        ),
        (
            {"bindings": [{**BINDING, "destination": "e", "destination_type": "exchange"}]},
            "bindings[0].destination: no exchange 'e' in vhost '/'",
        ),
        (
            {"bindings": [{**BINDING, "destination_type": "topic"}]},
            "bindings[0].destination_type: must be queue or exchange",
        ),
        ({"policies": [{**POLICY, "vhost": "x"}]}, "policies[0].vhost: no vhost 'x'"),
        (
            {"policies": [{**POLICY, "pattern": "(", "definition": {"max-length": -1}}]},
            (
                "policies[0]: -1 is not a valid maximum length; "
                'pattern should be regular expression but is invalid: {"missing )",1}'
            ),
        ),
        ({"permissions": [{**PERMISSION, "user": "eve"}]}, "permissions[0].user: no user 'eve'"),
        ({"permissions": [{**PERMISSION, "vhost": "x"}]}, "permissions[0].vhost: no vhost 'x'"),
        ({"permissions": [{"user": "guest", "vhost": "/"}]}, "permissions[0].configure: is missing"),
        (
            {"permissions": [{**PERMISSION, "write": "["}]},
            (
                "permissions[0].write: invalid regular expression '[': missing terminating ] for character class "
                "at position 1"
            ),
        ),
        (
            {"topic_permissions": [{**PERMISSION, "exchange": "e", "read": "*"}]},
            "topic_permissions[0].read: invalid regular expression '*': nothing to repeat at position 0",
        ),
        ({"users": [{"tags": ""}]}, "users[0].name: is missing"),
        ({"users": [{"name": ""}]}, "users[0].name: is empty"),
        ({"users": [{"name": "u", "tags": 5}]}, "users[0].tags: must be a list of strings"),
        ({"users": [{"name": "u", "tags": ["a", 5]}]}, "users[0].tags[1]: must be a string"),
        ({"users": [{"name": "u", "tags": ["t"] * 33}]}, "users[0].tags: more than 32 tags"),
        ({"users": [{"name": "u", "password_hash": "!!"}]}, "users[0].password_hash: not base64"),
        (
            {"users": [{"name": "u", "password_hash": "AAAA", "hashing_algorithm": "rot13"}]},
            "users[0].hashing_algorithm: unknown hashing algorithm 'rot13'",
        ),
        (
            {"users": [{"name": "u", "password": "pw"}]},
            "users[0].password: only a password_hash can be imported here",
        ),
        ({"users": [{"name": "u", "password": ""}]}, "users[0].password: is empty"),
        (
            {"users": [{"name": "u", "password": "pw", "password_hash": "AAAA"}]},
            "users[0].password: stands beside a password_hash; only one of them may be given",
        ),
        (
            {"users": [{"name": "u", "limits": {"max-channels": "x"}}]},
            'users[0].limits: max-channels should be a number, actually was <<"x">>',
        ),
        ({"vhosts": [{"name": ""}]}, "vhosts[0].name: is empty"),
        ({"vhosts": [{"name": "v", "description": 5}]}, "vhosts[0].description: must be a string"),
        (
            {"vhosts": [{"name": "v", "metadata": {"tags": 5}}]},
            "vhosts[0].metadata.tags: must be a list of strings",
        ),
        (
            {"vhosts": [{"name": "v", "default_queue_type": "nope"}]},
            "vhosts[0].default_queue_type: nope is not a valid queue type",
        ),
        (
            {"parameters": [{"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"x": 1}}]},
            'parameters[0].value: Unrecognised terms [{<<"x">>,1}] in limits',
        ),
        (
            {"parameters": [{"vhost": "/", "component": "operator_policy", "name": "o", "value": {"pattern": "a"}}]},
            "parameters[0].value: definition must be a dictionary: null",
        ),
        (
            {"parameters": [{"vhost": "/", "component": "policy", "name": "p", "value": {}}]},
            "parameters[0].component: policies stand in a list of their own",
        ),
        ({"global_parameters": [{}]}, "global_parameters[0].name: is missing"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_nothing_is_changed(document: dict[str, object], text: str) -> None:
    # What could be applied comes first: it must not be.
    good: dict[str, object] = {"vhosts": [{"name": "fine"}], "users": [{"name": "fine", "tags": ""}]}
    assert refusal({**good, **document}) == f"definitions: {text}"


def test_an_import_into_a_vhost_that_is_not_there_is_refused() -> None:
    assert refusal({"queues": []}, "nowhere") == "definitions: no vhost 'nowhere'"


def test_an_import_keeps_to_the_limits_of_the_vhost() -> None:
    node = new_node()
    vhost = node.add_vhost("/")
    vhost.add_queue("old", True, False, {})
    administer.set_vhost_limits(node, "/", {"max-queues": 2})
    import_(node, {"queues": [{**QUEUE, "name": "old"}, {**QUEUE, "name": "new"}]})
    with pytest.raises(DefinitionsError, match=r"queues\[0\]: would exceed the limit of 2 queue\(s\) in vhost '/'"):
        import_(node, {"queues": [{**QUEUE, "name": "newer"}]})


# -- recorded and restored ---------------------------------------------------------------------------------------------


def restored(recorder: KeepingRecorder) -> Node:
    node = Node(new_node().host, new_node().settings, recorder)
    # As they come from a file: JSON has been there and back, in any order.
    rows = [
        (kind, tuple(json.loads(json.dumps(key))), json.loads(json.dumps(value))) for kind, key, value in recorder.all()
    ]
    restore(node, list(reversed(rows)))
    return node


def test_what_was_recorded_is_restored() -> None:
    recorder = KeepingRecorder()
    node = node_with(from_rabbitmq(), recorder)
    before = dict(recorder.rows)
    again = restored(recorder)
    expected, found = export(node), export(again)
    for document in (expected, found):
        # What is not durable does not survive a restart.
        for section in ("queues", "exchanges"):
            document[section] = [item for item in items(document, section) if item["durable"]]
        document["bindings"] = in_order([item for item in items(document, "bindings") if item["destination"] != "qt"])
    assert found == expected
    assert recorder.rows == before
    assert again.vhosts["v2"].queues["q1"].policy == "limits"


def test_types_of_arguments_survive_a_restart() -> None:
    recorder = KeepingRecorder()
    node = new_node(recorder)
    arguments: Table = {
        "x-max-length": Field("l", 5),
        "x-short": Field("s", 5),
        "x-bytes": Field("x", b"\xff\x00"),
        "x-when": Field("T", 1_700_000_000),
        "x-text": Field("S", b"\xff"),
        "x-table": Field("F", {"a": Field("f", 0.5), "b": Field("A", [Field("V", None), Field("t", True)])}),
    }
    vhost = node.add_vhost("/")
    vhost.add_queue("q", True, False, arguments)
    vhost.add_exchange("e", "headers", True, False, False, arguments)
    vhost.add_binding("e", "queue", "q", "k", arguments)
    again = restored(recorder).vhosts["/"]
    assert again.queues["q"].arguments == arguments
    assert again.exchanges["e"].arguments == arguments
    assert [binding.arguments for binding in again.exchanges["e"].bindings.values()] == [arguments]


def test_names_that_are_not_utf8_survive_a_restart() -> None:
    recorder = KeepingRecorder()
    node = new_node(recorder)
    name = b"caf\xe9".decode(errors="surrogateescape")
    vhost = node.add_vhost("/")
    vhost.add_queue(name, True, False, {})
    vhost.add_binding("amq.direct", "queue", name, name, {})
    again = restored(recorder).vhosts["/"]
    assert list(again.queues) == [name]
    assert [binding.routing_key for binding in again.exchanges["amq.direct"].bindings.values()] == [name]


def test_a_durable_queue_with_a_generated_name_survives_a_restart() -> None:
    recorder = KeepingRecorder()
    new_node(recorder).add_vhost("/").add_queue("amq.gen-1", True, False, {})
    assert list(restored(recorder).vhosts["/"].queues) == ["amq.gen-1"]


def test_a_row_of_an_unknown_kind_is_not_passed_over() -> None:
    with pytest.raises(DefinitionsError, match="nothing is known of the stored kind 'novelty'"):
        restore(new_node(), [("novelty", ("x",), {})])


def test_what_cannot_be_restored_is_named_and_costs_nothing_else() -> None:
    node = new_node()
    complaints = restore(
        node,
        [
            ("vhost", ("/",), {"name": "/"}),
            ("permission", ("u", "/"), {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""}),
            ("queue", ("/", "q"), {"name": "q"}),
            ("queue", ("/", "whole"), {"name": "whole", "vhost": "/", "durable": True, "arguments": {}}),
            ("binding", ("/", "e", "queue", "q", ""), {"source": "e"}),
        ],
    )
    assert [line.split(": ")[1] for line in complaints] == [
        "stored permission ['u', '/']",
        "stored queue ['/', 'q'].vhost",
        "stored binding ['/', 'e', 'queue', 'q', ''].vhost",
    ]
    assert list(node.vhosts["/"].queues) == ["whole"]
