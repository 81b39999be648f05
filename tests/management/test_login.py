"""Who gets into the API, and how far."""

from __future__ import annotations

import pytest

from tests.management.asking import Asking
from warren import Broker


def refused(reason: str) -> dict[str, str]:
    return {"error": "not_authorised", "reason": reason}


def test_without_a_login_a_browser_is_asked_for_one(broker: Broker) -> None:
    answer = Asking(broker, None).get("/api/whoami")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


@pytest.mark.parametrize("login", ["guest:wrong", "nobody:guest", "guest:", ":"])
def test_a_wrong_login_is_refused(broker: Broker, login: str) -> None:
    answer = Asking(broker, login).get("/api/whoami")
    assert (answer.status, answer.json["reason"]) == (401, "Login failed")


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic /w==", "Bearer x", ""])
def test_a_login_that_is_none_is_refused(broker: Broker, header: str) -> None:
    assert Asking(broker, None).get("/api/whoami", Authorization=header).status == 401


def test_whoami_tells_the_name_and_the_tags(api: Asking) -> None:
    assert api.get("/api/whoami").json == {"name": "guest", "tags": ["administrator"]}


@pytest.mark.parametrize(
    ("tag", "path", "reason"),
    [
        ("", "/api/overview", "Not management user"),
        ("impersonator", "/api/overview", "Not management user"),
        ("management", "/api/users", "Not administrator user"),
        ("monitoring", "/api/users", "Not administrator user"),
        ("management", "/api/nodes", "Not monitor user"),
        ("policymaker", "/api/nodes", "Not monitor user"),
    ],
)
def test_a_tag_that_is_too_small_is_refused(broker: Broker, tag: str, path: str, reason: str) -> None:
    broker.add_user("small", "secret", [tag] if tag else [])
    answer = Asking(broker, "small:secret").get(path)
    assert (answer.status, answer.json) == (401, refused(reason))


def test_a_virtual_host_is_seen_by_those_who_may_use_it(broker: Broker) -> None:
    broker.add_vhost("closed")
    broker.add_user("guest two", "secret", ["management"])
    broker.set_permission("guest two", "/")
    asking = Asking(broker, "guest two:secret")
    assert [vhost["name"] for vhost in asking.get("/api/vhosts").json] == ["/"]
    answer = asking.get("/api/queues/closed")
    assert (answer.status, answer.json) == (401, refused("User not authorised to access virtual host"))


def test_a_monitoring_user_sees_all_virtual_hosts_and_changes_nothing(broker: Broker) -> None:
    broker.add_user("watcher", "secret", ["monitoring"])
    asking = Asking(broker, "watcher:secret")
    assert "/" in [vhost["name"] for vhost in asking.get("/api/vhosts").json]
    body = {"pattern": "", "definition": {"max-length": 1}}
    assert asking.put("/api/policies/%2F/p", body).json == refused("Not policymaker")
    assert asking.delete("/api/vhosts/%2F").json == refused("Not administrator user")


def test_a_new_password_counts_at_once(broker: Broker) -> None:
    broker.add_user("changing", "old", ["management"])
    assert Asking(broker, "changing:old").get("/api/whoami").status == 200
    broker.add_user("changing", "new", ["management"])
    assert Asking(broker, "changing:old").get("/api/whoami").status == 401
    assert Asking(broker, "changing:new").get("/api/whoami").status == 200


def test_every_answer_carries_the_headers_that_protect_a_browser(broker: Broker, api: Asking) -> None:
    for answer in (api.get("/"), api.get("/api/overview"), Asking(broker, None).get("/api/overview")):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
