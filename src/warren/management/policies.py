"""/api/policies and /api/operator-policies: the same, but for who may set them and which settings they may hold."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker import administer
from warren.broker.policies import Policy
from warren.management.calls import Call, Needs, done, route
from warren.management.refusals import not_found
from warren.management.spec import NUMBER, OBJECT, TEXT, Schema, takes

_RULE: Final[dict[str, Schema]] = {"pattern": TEXT, "definition": OBJECT, "priority": NUMBER, "apply__to": TEXT}


def found_in(call: Call) -> list[Policy]:
    return [policy for vhost in call.vhosts() for policy in vhost.policies.policies.values()]


def operator_found_in(call: Call) -> list[Policy]:
    return [policy for vhost in call.vhosts() for policy in vhost.policies.operator_policies.values()]


async def list_policies(call: Call) -> Response:
    return call.listing([administer.policy_definition(policy) for policy in found_in(call)])


async def list_operator_policies(call: Call) -> Response:
    return call.listing([administer.policy_definition(policy) for policy in operator_found_in(call)])


async def show(call: Call) -> Response:
    return call.item(administer.policy_definition(named(call, found_in(call))))


async def show_operator(call: Call) -> Response:
    return call.item(administer.policy_definition(named(call, operator_found_in(call))))


@takes("pattern", "definition", **_RULE)
async def put(call: Call) -> Response:
    vhost, name = call.vhost(), call.path("name")
    is_new = name not in vhost.policies.policies
    administer.set_policy(call.node, vhost.name, name, *await rule_in(call))
    return done(is_new)


@takes("pattern", "definition", **_RULE)
async def put_operator(call: Call) -> Response:
    vhost, name = call.vhost(), call.path("name")
    is_new = name not in vhost.policies.operator_policies
    administer.set_operator_policy(call.node, vhost.name, name, *await rule_in(call))
    return done(is_new)


async def delete(call: Call) -> Response:
    if not administer.delete_policy(call.node, call.vhost().name, call.path("name")):
        raise not_found()
    return done()


async def delete_operator(call: Call) -> Response:
    if not administer.delete_operator_policy(call.node, call.vhost().name, call.path("name")):
        raise not_found()
    return done()


async def rule_in(call: Call) -> tuple[object, object, object, object]:
    """Pattern, definition, priority and what it applies to; their values are checked by the broker."""
    body = call.required(await call.body(), "pattern", "definition")
    return body["pattern"], body["definition"], body.get("priority", 0), body.get("apply-to", "all")


def named(call: Call, policies: list[Policy]) -> Policy:
    name = call.path("name")
    for policy in policies:
        if policy.name == name:
            return policy
    raise not_found()


ROUTES: Final = [
    route("/api/policies", GET=list_policies),
    route("/api/policies/{vhost}", GET=list_policies),
    route("/api/policies/{vhost}/{name}", Needs.POLICYMAKER, GET=show, PUT=put, DELETE=delete),
    route("/api/operator-policies", GET=list_operator_policies),
    route("/api/operator-policies/{vhost}", GET=list_operator_policies),
    route(
        "/api/operator-policies/{vhost}/{name}",
        Needs.ADMINISTRATOR,
        GET=show_operator,
        PUT=put_operator,
        DELETE=delete_operator,
    ),
]
