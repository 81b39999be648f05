"""What operators change through the API: users, virtual hosts, permissions, policies, bindings, definitions."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.management.asking import Asking
from warren import Broker
from warren.broker.node import Node, VHostSweep
from warren.broker.queue.errands import Budget, Errand
from warren.broker.vhost.vhost import VHost
from warren.management.pieces import NextTurn

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def test_a_user_is_put_shown_and_deleted(api: Asking) -> None:
    body = {"password": "secret", "tags": "management,policymaker"}
    assert api.put("/api/users/alice", body).status == 201
    assert api.put("/api/users/alice", body).status == 204
    shown = api.get("/api/users/alice").json
    assert (shown["name"], shown["tags"]) == ("alice", ["management", "policymaker"])
    assert "secret" not in str(shown)
    assert "password" not in shown
    assert api.delete("/api/users/alice").status == 204
    assert api.delete("/api/users/alice").status == 404


def test_a_user_with_a_password_and_a_hash_is_refused(api: Asking) -> None:
    answer = api.put("/api/users/two", {"password": "secret", "password_hash": "", "tags": ""})
    reason = "both_password_and_password_hash_are_provided"
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})
    assert api.get("/api/users/two").status == 404


def test_a_user_may_come_with_a_hash_of_rabbitmq(broker: Broker, api: Asking) -> None:
    body = {
        # "test12", as RabbitMQ stores it.
        "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["management"],
    }
    assert api.put("/api/users/moved", body).status == 201
    assert Asking(broker, "moved:test12").get("/api/whoami").status == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "x"}, "tags_not_present"),
        ({"password": "", "tags": ""}, "password must be a text that is not empty"),
        ({"password": 5, "tags": ""}, "password must be a text that is not empty"),
        ({"password": "x", "tags": [1]}, "tags must be a list of text"),
        (b"{", "not_json"),
        (b"[1]", "not_json"),
        (b"[" * 100_000, "not_json"),
    ],
)
def test_a_user_that_cannot_be_is_refused(api: Asking, body: object, reason: str) -> None:
    answer = api.put("/api/users/wrong", body)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})
    assert api.get("/api/users/wrong").status == 404


def test_a_virtual_host_is_put_used_and_deleted(broker: Broker, api: Asking) -> None:
    assert api.put("/api/vhosts/v1", {"description": "one", "tags": "x"}).status == 201
    assert api.put("/api/vhosts/v1").status == 204
    # Whoever makes one may use it.
    assert api.get("/api/permissions/v1/guest").json == {"user": "guest", "vhost": "v1", **EVERYTHING}
    assert api.delete("/api/vhosts/v1").status == 204
    assert api.delete("/api/vhosts/v1").status == 404
    assert api.get("/api/permissions/v1/guest").status == 404


class UntilSomebodyWaits(Errand):
    """A virtual host is being deleted, and the rest of it is done when a request waits for that."""

    def __init__(self, node: Node, vhost: VHost) -> None:
        super().__init__()
        self._errands = node.errands
        self._sweep = VHostSweep(node, vhost)

    def step(self, budget: Budget) -> bool:
        if not any(isinstance(errand, NextTurn) for errand in self._errands.waiting):
            return False
        self._errands.add(self._sweep)
        return True


def test_a_virtual_host_that_is_put_while_it_is_deleted_is_made_anew(broker: Broker, api: Asking) -> None:
    def begin_to_delete(node: Node) -> None:
        vhost = node.add_vhost("again", "the old one")
        vhost.add_queue("old", True, False, {})
        node.errands.add(UntilSomebodyWaits(node, vhost))

    broker.call(begin_to_delete)
    assert api.put("/api/queues/again/new", {}).json == {"error": "not_found", "reason": "vhost_not_found"}
    assert api.put("/api/vhosts/again").status == 201
    assert api.get("/api/vhosts/again").json["description"] == ""
    assert api.get("/api/queues/again").json == []
    assert api.put("/api/queues/again/new", {}).status == 201
    assert api.delete("/api/vhosts/again").status == 204


def test_permissions_are_put_and_deleted(broker: Broker, api: Asking) -> None:
    broker.add_user("bob", "x")
    assert api.put("/api/permissions/%2F/bob", EVERYTHING).status == 201
    assert api.put("/api/permissions/%2F/bob", EVERYTHING).status == 204
    assert api.get("/api/users/bob/permissions").json == [{"user": "bob", "vhost": "/", **EVERYTHING}]
    assert api.delete("/api/permissions/%2F/bob").status == 204
    assert api.delete("/api/permissions/%2F/bob").status == 404


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/api/permissions/%2F/nobody", EVERYTHING, "vhost_or_user_not_found"),
        ("/api/permissions/nowhere/guest", EVERYTHING, "vhost_or_user_not_found"),
        ("/api/permissions/%2F/guest", {"configure": "", "write": ""}, "[{key_missing,read}]"),
        ("/api/permissions/%2F/guest", {**EVERYTHING, "read": 5}, "read must be text"),
    ],
)
def test_permissions_that_cannot_be_are_refused(api: Asking, path: str, body: object, reason: str) -> None:
    answer = api.put(path, body)
    assert (answer.status, answer.json["reason"]) == (400, reason)


def test_a_pattern_that_is_no_regular_expression_is_refused(api: Asking) -> None:
    assert api.put("/api/permissions/%2F/guest", {**EVERYTHING, "read": "("}).status == 400


def test_topic_permissions_are_put_and_deleted(api: Asking) -> None:
    body = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert api.put("/api/topic-permissions/%2F/guest", body).status == 201
    assert api.put("/api/topic-permissions/%2F/guest", body).status == 204
    assert api.get("/api/topic-permissions/%2F/guest").json == [{"user": "guest", "vhost": "/", **body}]
    assert api.get("/api/topic-permissions").json == api.get("/api/users/guest/topic-permissions").json
    assert api.delete("/api/topic-permissions/%2F/guest").status == 204
    assert api.get("/api/topic-permissions").json == []


def test_a_policy_is_put_applied_and_deleted(broker: Broker, api: Asking) -> None:
    broker.call(lambda node: node.vhosts["/"].add_queue("ruled", True, False, {}))
    body = {"pattern": "^ruled$", "definition": {"max-length": 5}, "priority": 3, "apply-to": "queues"}
    assert api.put("/api/policies/%2F/p", body).status == 201
    assert api.put("/api/policies/%2F/p", body).status == 204
    assert api.get("/api/policies/%2F/p").json == {"vhost": "/", "name": "p", **body}
    shown = api.get("/api/queues/%2F/ruled").json
    assert (shown["policy"], shown["effective_policy_definition"]) == ("p", {"max-length": 5})
    assert api.delete("/api/policies/%2F/p").status == 204
    assert api.delete("/api/policies/%2F/p").status == 404
    assert api.get("/api/queues/%2F/ruled").json["policy"] is None


def test_operator_policies_are_apart(api: Asking) -> None:
    body = {"pattern": "^x", "definition": {"max-length": 5}, "priority": 0, "apply-to": "queues"}
    assert api.put("/api/operator-policies/%2F/o", body).status == 201
    assert api.get("/api/operator-policies/%2F").json == [{"vhost": "/", "name": "o", **body}]
    assert api.get("/api/policies").json == []
    assert api.delete("/api/operator-policies/%2F/o").status == 204


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"definition": {}}, "[{key_missing,pattern}]"),
        ({"pattern": ""}, "[{key_missing,definition}]"),
        (
            {"pattern": "^x", "definition": {"max-length": -5}},
            "Validation failed\n\n-5 is not a valid maximum length\n",
        ),
    ],
)
def test_a_policy_that_cannot_be_is_refused(api: Asking, body: object, reason: str) -> None:
    answer = api.put("/api/policies/%2F/wrong", body)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


def test_a_binding_is_made_shown_and_removed(broker: Broker, api: Asking) -> None:
    broker.call(lambda node: node.vhosts["/"].add_queue("bound", True, False, {}))
    path = "/api/bindings/%2F/e/amq.topic/q/bound"
    answer = api.post(path, {"routing_key": "a b", "arguments": {"x": 1}})
    assert answer.status == 201
    location = answer.headers["location"].removeprefix("bound/")
    assert api.get(f"{path}/{location}").json["routing_key"] == "a b"
    assert api.delete(f"{path}/{location}").status == 204
    assert api.get(path).json == []


@pytest.mark.parametrize(
    ("key", "shown"),
    [("~", "%7E"), ("a~b", "a%7Eb"), ("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb"), ("a+b", "a%2Bb"), ("ü", "%C3%BC")],
)
def test_a_binding_is_found_by_what_its_key_is_shown_as(broker: Broker, api: Asking, key: str, shown: str) -> None:
    broker.call(lambda node: node.vhosts["/"].add_queue("bound", True, False, {}))
    path = "/api/bindings/%2F/e/amq.topic/q/bound"
    # Keys that one could take for it, once encoded or decoded.
    for other in ("", "a", "a/b", "a%2Fb", "a%252Fb", "a+b", "a b", key):
        answer = api.post(path, {"routing_key": other})
    assert answer.headers["location"] == f"bound/{quote(shown)}"
    listed = {each["routing_key"]: each["properties_key"] for each in api.get(path).json}
    assert listed[key] == shown
    assert api.delete(f"{path}/{quote(shown)}").status == 204
    assert [each["routing_key"] for each in api.get(path).json] == [other for other in listed if other != key]


def test_a_binding_to_nothing_is_refused(api: Asking) -> None:
    answer = api.post("/api/bindings/%2F/e/amq.topic/q/nope", {"routing_key": ""})
    assert (answer.status, answer.json) == (404, {"error": "not_found", "reason": "no queue 'nope' in vhost '/'"})


def test_definitions_come_out_and_go_in(broker: Broker, api: Asking) -> None:
    broker.call(lambda node: node.vhosts["/"].add_queue("moving", True, False, {}))
    exported = api.get("/api/definitions").json
    assert "moving" in [queue["name"] for queue in exported["queues"]]
    with Broker(http=True) as other:
        assert Asking(other).post("/api/definitions", exported).status == 204
        assert "moving" in [queue["name"] for queue in Asking(other).get("/api/queues").json]


def test_definitions_of_one_virtual_host_name_no_other(broker: Broker, api: Asking) -> None:
    broker.add_vhost("into")
    exported = api.get("/api/definitions/%2F").json
    assert "users" not in exported
    assert api.post("/api/definitions/into", {"queues": [{"name": "q", "durable": True}]}).status == 204
    assert [queue["name"] for queue in api.get("/api/queues/into").json] == ["q"]


def test_definitions_that_cannot_be_change_nothing(api: Asking) -> None:
    answer = api.post("/api/definitions", {"queues": [{"name": "good", "vhost": "/"}, {"name": "bad", "vhost": "no"}]})
    assert answer.status == 400
    assert "no vhost 'no'" in answer.json["reason"]
    assert api.get("/api/queues/%2F/good").status == 404


def test_a_body_that_is_too_large_is_not_read_to_its_end(api: Asking) -> None:
    answer = api.put("/api/users/large", b" " * 10_000_001)
    assert (answer.status, answer.json["error"]) == (413, "payload_too_large")
