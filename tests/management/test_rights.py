"""Every path of the API and every method on it: which tag opens it, and what that asks for in the virtual host.

One table, none missing: a new path fails here until somebody has said who may use it. Permissions on queues and
exchanges are AMQP's own, and stand in tests/broker/test_access_matrix.py and test_matrix.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.management.asking import Asking
from warren import Broker
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.management.app import RESOURCES
from warren.management.calls import OpenResource, Resource
from warren.server.passwords import Passwords

# Users of the test, by what they are tagged with. All have every permission in `own` and none in `other`.
TAGGED: Final = {
    "nobody": [],
    "manager": ["management"],
    "maker": ["policymaker"],
    "monitor": ["monitoring"],
    "watchmaker": ["monitoring", "policymaker"],
    "admin": ["administrator"],
}
OPENS: Final = {
    "management": {"manager", "maker", "monitor", "watchmaker", "admin"},
    "policymaker": {"maker", "watchmaker", "admin"},
    "monitoring": {"monitor", "watchmaker", "admin"},
    "administrator": {"admin"},
}
# Who gets along without permissions in the virtual host: those who see all, those who rule, or nobody.
WITHOUT_PERMISSIONS: Final = {"see": {"monitor", "watchmaker", "admin"}, "rule": {"admin"}, "use": set[str]()}
# method, path, tag, and for paths with a virtual host one of these three.
TABLE: Final = """
GET    /api/auth/attempts/{name} monitoring
DELETE /api/auth/attempts/{name} administrator
GET    /api/overview management
GET    /api/nodes monitoring
GET    /api/nodes/{name} monitoring
GET    /api/whoami management
GET    /api/cluster-name management
PUT    /api/cluster-name administrator
GET    /api/nodes/{name}/memory monitoring
GET    /api/extensions management
GET    /api/feature-flags administrator
PUT    /api/feature-flags/{name}/enable administrator
GET    /api/deprecated-features management
GET    /api/deprecated-features/used management
POST   /api/rebalance/queues administrator
DELETE /api/reset administrator
POST   /api/vhosts/{vhost}/start/{name} administrator rule
GET    /api/version management
GET    /api/vhosts management
GET    /api/vhosts/{vhost} management see
PUT    /api/vhosts/{vhost} administrator rule
DELETE /api/vhosts/{vhost} administrator rule
GET    /api/exchanges management
GET    /api/exchanges/{vhost} management see
GET    /api/exchanges/{vhost}/{name} management see
PUT    /api/exchanges/{vhost}/{name} management use
DELETE /api/exchanges/{vhost}/{name} management use
GET    /api/exchanges/{vhost}/{name}/bindings/source management see
GET    /api/exchanges/{vhost}/{name}/bindings/destination management see
GET    /api/queues management
GET    /api/queues/detailed management
GET    /api/queues/{vhost} management see
GET    /api/queues/{vhost}/{name} management see
PUT    /api/queues/{vhost}/{name} management use
PATCH  /api/queues/{vhost}/{name} management use
DELETE /api/queues/{vhost}/{name} management use
DELETE /api/queues/{vhost}/{name}/contents management use
GET    /api/queues/{vhost}/{name}/bindings management see
POST   /api/queues/{vhost}/{name}/actions administrator rule
GET    /api/bindings management
GET    /api/bindings/{vhost} management see
GET    /api/bindings/{vhost}/e/{source}/{kind}/{destination} management see
POST   /api/bindings/{vhost}/e/{source}/{kind}/{destination} management use
GET    /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props} management see
DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props} management use
GET    /api/connections management
GET    /api/vhosts/{vhost}/connections management see
GET    /api/connections/username/{user} management
DELETE /api/connections/username/{user} administrator
GET    /api/connections/{name} management
DELETE /api/connections/{name} management
GET    /api/connections/{name}/channels management
GET    /api/channels management
GET    /api/vhosts/{vhost}/channels management see
GET    /api/channels/{name} management
GET    /api/consumers management
GET    /api/consumers/{vhost} management see
POST   /api/exchanges/{vhost}/{name}/publish management use
POST   /api/queues/{vhost}/{name}/get management use
GET    /api/queues/{vhost}/{name}/messages management use
GET    /api/queues/{vhost}/{name}/messages/{sequence} management use
DELETE /api/queues/{vhost}/{name}/messages/{sequence} management use
POST   /api/queues/{vhost}/{name}/messages/{sequence}/move management use
POST   /api/queues/{vhost}/{name}/move management use
POST   /api/queues/{vhost}/{name}/redrive management use
GET    /api/scheduled management
GET    /api/scheduled/{vhost} management see
GET    /api/scheduled/{vhost}/{name} management use
DELETE /api/scheduled/{vhost}/{name}/{sequence} management use
GET    /api/traces monitoring
DELETE /api/traces administrator
GET    /api/traces/settings monitoring
PUT    /api/traces/settings administrator
POST   /api/traces/dry-run management
GET    /api/traces/{id} monitoring
GET    /api/users administrator
POST   /api/users/bulk-delete administrator
GET    /api/users/without-permissions administrator
GET    /api/users/{user} administrator
PUT    /api/users/{user} administrator
DELETE /api/users/{user} administrator
GET    /api/users/{user}/permissions administrator
GET    /api/users/{user}/topic-permissions administrator
GET    /api/permissions administrator
GET    /api/permissions/{vhost}/{user} administrator rule
PUT    /api/permissions/{vhost}/{user} administrator rule
DELETE /api/permissions/{vhost}/{user} administrator rule
GET    /api/vhosts/{vhost}/permissions administrator rule
GET    /api/topic-permissions administrator
GET    /api/topic-permissions/{vhost}/{user} administrator rule
PUT    /api/topic-permissions/{vhost}/{user} administrator rule
DELETE /api/topic-permissions/{vhost}/{user} administrator rule
GET    /api/vhosts/{vhost}/topic-permissions administrator rule
GET    /api/policies management
GET    /api/policies/{vhost} management rule
GET    /api/policies/{vhost}/{name} policymaker rule
PUT    /api/policies/{vhost}/{name} policymaker rule
DELETE /api/policies/{vhost}/{name} policymaker rule
GET    /api/operator-policies management
GET    /api/operator-policies/{vhost} management rule
GET    /api/operator-policies/{vhost}/{name} administrator rule
PUT    /api/operator-policies/{vhost}/{name} administrator rule
DELETE /api/operator-policies/{vhost}/{name} administrator rule
GET    /api/vhost-limits management
GET    /api/vhost-limits/{vhost} management see
PUT    /api/vhost-limits/{vhost}/{name} administrator rule
DELETE /api/vhost-limits/{vhost}/{name} administrator rule
GET    /api/user-limits management
GET    /api/user-limits/{user} management
PUT    /api/user-limits/{user}/{name} administrator
DELETE /api/user-limits/{user}/{name} administrator
GET    /api/parameters policymaker
GET    /api/parameters/{component} policymaker
GET    /api/parameters/{component}/{vhost} policymaker rule
GET    /api/parameters/{component}/{vhost}/{name} policymaker rule
PUT    /api/parameters/{component}/{vhost}/{name} policymaker rule
DELETE /api/parameters/{component}/{vhost}/{name} policymaker rule
GET    /api/global-parameters policymaker
GET    /api/global-parameters/{name} policymaker
PUT    /api/global-parameters/{name} policymaker
DELETE /api/global-parameters/{name} policymaker
GET    /api/definitions administrator
POST   /api/definitions administrator
GET    /api/all-configuration administrator
POST   /api/all-configuration administrator
GET    /api/definitions/{vhost} administrator rule
POST   /api/definitions/{vhost} administrator rule
GET    /api/pipelines management
GET    /api/pipelines/{vhost} management see
GET    /api/pipelines/{vhost}/{name} management see
PUT    /api/pipelines/{vhost}/{name} management use
DELETE /api/pipelines/{vhost}/{name} management rule
GET    /api/health/checks/alarms management
GET    /api/health/checks/local-alarms management
GET    /api/health/checks/port-listener/{port} management
GET    /api/health/checks/protocol-listener/{protocol} management
GET    /api/health/checks/virtual-hosts management
GET    /api/health/checks/certificate-expiration/{within}/{unit} management
GET    /api/health/checks/node-is-mirror-sync-critical management
GET    /api/health/checks/node-is-quorum-critical management
GET    /api/healthchecks/node management
GET    /api/healthchecks/node/{name} management
GET    /api/aliveness-test/{vhost} management see
GET    /metrics/per-object monitoring
GET    /metrics/detailed monitoring
"""
# Asked before anybody is known.
OPEN: Final = {("POST", "/api/login"), ("GET", "/api/login"), ("POST", "/api/logout"), ("GET", "/api/auth")}
NAMES: Final = {"source": "e", "destination": "q", "kind": "q", "sequence": "1", "id": "1", "props": "~"}
# All that any of them must be told: rights are asked before anything is done, and what is wrong is found out after.
BODY: Final = {
    "pattern": "", "definition": {"max-length": 1}, "value": 1, "type": "topic", "properties": {}, "routing_key": "k",
    "payload": "m", "payload_encoding": "string", "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto",
    "queue": "q", "to": "queue", "arguments": {}, "state": "running", "configure": "", "write": "", "read": "",
    "password": "p", "tags": "", "users": [], "name": "n", "action": "sync",
}  # fmt: skip

Row = tuple[str, str, str, str]


def rows() -> list[Row]:
    split = [line.split() for line in TABLE.strip().splitlines()]
    return [(line[0], line[1], line[2], line[3] if len(line) > 3 else "") for line in split]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True, login_failures_max=0) as broker:
        yield broker


def prepare(node: Node) -> None:
    """Everything is there before every question, whatever the last one has removed."""
    for name in ("own", "other"):
        vhost = node.add_vhost(name)
        if "q" not in vhost.queues:
            vhost.add_queue("q", True, False, {})
        if "e" not in vhost.exchanges:
            vhost.add_exchange("e", "topic", True, False, False, {})
        vhost.add_binding("e", "queue", "q", "", {})
    for name, tags in TAGGED.items():
        if name not in node.access.users:
            algorithm, password_hash = Passwords("rabbit_password_hashing_sha256").hash("secret")
            administer.put_user(node, User(name, password_hash, algorithm, list(tags)))
        administer.set_permission(node, name, "own", ".*", ".*", ".*")


def place(path: str, vhost: str) -> str:
    names = dict(NAMES, vhost=vhost, name={"queues": "q", "exchanges": "e"}.get(path.split("/")[2], "nothing"))
    return re.sub(r"{(\w+)}", lambda found: names.get(found[1], "nothing"), path)


def allowed(broker: Broker, method: str, path: str, vhost: str) -> set[str]:
    found = set()
    for name in TAGGED:
        broker.call(prepare)
        body = None if method in ("GET", "DELETE") else BODY
        if Asking(broker, f"{name}:secret").ask(method, place(path, vhost), body).status != 401:
            found.add(name)
    return found


@pytest.mark.parametrize(("method", "path", "tag", "vhost"), rows(), ids=[f"{row[0]} {row[1]}" for row in rows()])
def test_a_path_opens_to_exactly_these(broker: Broker, method: str, path: str, tag: str, vhost: str) -> None:
    assert allowed(broker, method, path, "own") == OPENS[tag]
    if vhost:
        assert allowed(broker, method, path, "other") == OPENS[tag] & WITHOUT_PERMISSIONS[vhost]


def test_the_table_has_every_path_and_method() -> None:
    routes = [each for resource in RESOURCES for each in resource.ROUTES if isinstance(each, Resource)]
    there = {(method, each.path) for each in routes for method in each.handlers}
    assert {(method, path) for method, path, _, _ in rows()} | OPEN == there
    assert {
        (method, each.path) for each in routes if isinstance(each, OpenResource) for method in each.handlers
    } == OPEN


def test_the_table_says_of_every_path_with_a_virtual_host_what_that_asks_for() -> None:
    assert {path for _, path, _, vhost in rows() if bool(vhost) != ("{vhost}" in path)} == set()
