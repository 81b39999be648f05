"""Limits of virtual hosts and users, and parameters."""

from __future__ import annotations

from tests.management.asking import Asking
from warren import Broker


def test_a_virtual_host_is_limited_and_freed(broker: Broker, api: Asking) -> None:
    broker.add_vhost("small")
    assert api.put("/api/vhost-limits/small/max-queues", {"value": 0}).status == 204
    assert api.get("/api/vhost-limits/small").json == [{"vhost": "small", "value": {"max-queues": 0}}]
    assert api.put("/api/queues/small/q", {}).status == 400
    assert api.delete("/api/vhost-limits/small/max-queues").status == 204
    assert api.get("/api/vhost-limits").json == []
    assert api.put("/api/queues/small/q", {}).status == 201


def test_a_limit_that_cannot_be_is_refused(api: Asking) -> None:
    answer = api.put("/api/vhost-limits/%2F/max-queues", {"value": "x"})
    assert answer.json["reason"] == 'Validation failed\n\nmax-queues should be a number, actually was <<"x">>\n'
    assert api.put("/api/vhost-limits/%2F/nix", {"value": 5}).status == 400
    assert api.put("/api/vhost-limits/%2F/max-queues", {}).json["reason"] == "[{key_missing,value}]"


def test_a_user_is_limited_and_freed(broker: Broker, api: Asking) -> None:
    broker.add_user("limited", "secret")
    assert api.put("/api/user-limits/limited/max-channels", {"value": 5}).status == 204
    assert api.get("/api/user-limits/limited").json == [{"user": "limited", "value": {"max-channels": 5}}]
    assert api.get("/api/user-limits").json == api.get("/api/user-limits/limited").json
    assert api.put("/api/user-limits/limited/nix", {"value": 5}).status == 400
    assert api.delete("/api/user-limits/limited/max-channels").status == 204
    assert api.get("/api/user-limits/limited").json == []
    assert api.put("/api/user-limits/nobody/max-channels", {"value": 5}).json["reason"] == ["no_such_user", "nobody"]
    assert api.get("/api/user-limits/nobody").status == 404


def test_parameters_are_kept(api: Asking) -> None:
    path = "/api/parameters/some-plugin/%2F/one"
    assert api.put(path, {"value": {"a": 1}}).status == 201
    assert api.put(path, {"value": {"a": 2}}).status == 204
    shown = {"vhost": "/", "component": "some-plugin", "name": "one", "value": {"a": 2}}
    assert api.get(path).json == shown
    assert api.get("/api/parameters/some-plugin").json == api.get("/api/parameters/some-plugin/%2F").json == [shown]
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404
    assert api.get(path).status == 404


def test_limits_and_operator_policies_are_parameters_too(api: Asking) -> None:
    api.put("/api/vhost-limits/%2F/max-queues", {"value": 50})
    rule = {"pattern": "^x", "definition": {"max-length": 5}, "priority": 0, "apply-to": "queues"}
    assert api.put("/api/parameters/operator_policy/%2F/o", {"value": rule}).status == 201
    found = {each["component"]: each["value"] for each in api.get("/api/parameters").json}
    assert found == {"vhost-limits": {"max-queues": 50}, "operator_policy": rule}
    assert api.delete("/api/parameters/operator_policy/%2F/o").status == 204
    assert api.delete("/api/parameters/vhost-limits/%2F/limits").status == 204
    assert api.get("/api/parameters").json == []


def test_global_parameters_are_kept(api: Asking) -> None:
    path = "/api/global-parameters/mine"
    assert api.put(path, {"value": [1]}).status == 201
    assert api.put(path, {"value": [2]}).status == 204
    assert api.get(path).json == {"name": "mine", "value": [2]}
    assert {"name": "mine", "value": [2]} in api.get("/api/global-parameters").json
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404
    assert api.get(path).status == 404


def test_users_are_deleted_together(broker: Broker, api: Asking) -> None:
    for name in ("one", "two"):
        broker.add_user(name, "x")
    assert {"one", "two"} <= {user["name"] for user in api.get("/api/users/without-permissions").json}
    assert api.post("/api/users/bulk-delete", {"users": ["one", "nobody"]}).json["reason"] == ["no_such_user", "nobody"]
    assert api.post("/api/users/bulk-delete", {"users": ["one", "two"]}).status == 204
    assert api.get("/api/users/one").status == 404


def test_a_slash_at_the_end_changes_nothing(api: Asking) -> None:
    assert api.get("/api/users/").json == api.get("/api/users").json
