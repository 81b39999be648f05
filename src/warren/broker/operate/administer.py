"""Changes that operators make: to users, permissions, policies, parameters, limits and vhosts.

Each takes effect at once, also on those who are connected, and is recorded. The management API, imports and the
command line all come through here; nothing here asks who is asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker.rules.access import USER_LIMITS, User, UserError
from warren.broker.rules.policies import OPERATOR_POLICY, POLICY, Policy, ValidationFailed, parse
from warren.broker.session.expulsion import Expulsion, Revocation
from warren.broker.terms import erlang_pairs, erlang_term
from warren.broker.vhost.shapes import parameter_item, permission_item, topic_permission_item, user_item, vhost_item
from warren.errors import WarrenError

if TYPE_CHECKING:
    from warren.broker.node import Node
    from warren.broker.vhost.vhost import VHost

VHOST_LIMITS: Final = ("max-connections", "max-queues")
VHOST_LIMITS_COMPONENT: Final = "vhost-limits"


class NoSuchVHost(WarrenError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no vhost '{name}'")


def vhost_of(node: Node, name: str) -> VHost:
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NoSuchVHost(name)
    return vhost


# -- users and permissions ---------------------------------------------------------------------------------------------


def put_user(node: Node, user: User) -> None:
    before = node.access.users.get(user.name)
    node.access.put_user(user)
    _tell_of_user(node, before, user)
    node.record("user", (user.name,), user_item(user))


def _tell_of_user(node: Node, before: User | None, user: User) -> None:
    if before is None:
        node.events.done("user.created", {"name": user.name})
    elif before.password_hash != user.password_hash:
        node.events.done(
            "user.password.changed" if user.password_hash else "user.password.cleared", {"name": user.name}
        )
    if before is None or before.tags != user.tags:
        node.events.done("user.tags.set", {"name": user.name, "tags": list(user.tags)})


def delete_user(node: Node, name: str) -> bool:
    """With the user's permissions; the user's connections are closed."""
    for permission in [key for key in node.access.permissions if key[0] == name]:
        node.unrecord("permission", permission)
    for topic_permission in [key for key in node.access.topic_permissions if key[0] == name]:
        node.unrecord("topic_permission", topic_permission)
    if not node.access.delete_user(name):
        return False
    node.unrecord("user", (name,))
    node.events.done("user.deleted", {"name": name})
    close_connections_of(node, name, f"user '{name}' is deleted")
    return True


def close_connections_of(node: Node, user: str, reason: str) -> None:
    connections = [connection for connection in node.connections.values() if connection.user == user]
    node.errands.begin(Expulsion(node, connections, reason), None)
    node.wake()


def set_user_limits(node: Node, name: str, limits: dict[str, object]) -> None:
    """Replaces them all."""
    user = node.access.users.get(name)
    if user is None:
        raise UserError(f"no user '{name}'")
    user.limits = checked_limits(limits, USER_LIMITS, "user-limits")
    put_user(node, user)
    verb = "set" if user.limits else "cleared"
    node.events.done(f"user.limits.{verb}", {"name": "limits", "username": name, **user.limits})


def set_permission(node: Node, user: str, vhost: str, configure: str, write: str, read: str) -> None:
    vhost_of(node, vhost)
    node.access.set_permission(user, vhost, configure, write, read)
    value = permission_item(user, vhost, node.access.permissions[(user, vhost)])
    node.record("permission", (user, vhost), value)
    node.events.done("permission.created", value)
    _cancel_unreadable(node, user, vhost)


def clear_permission(node: Node, user: str, vhost: str) -> bool:
    found = node.access.clear_permission(user, vhost)
    node.unrecord("permission", (user, vhost))
    node.events.done("permission.deleted", {"user": user, "vhost": vhost})
    _cancel_unreadable(node, user, vhost)
    return found


def set_topic_permission(node: Node, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
    vhost_of(node, vhost)
    node.access.set_topic_permission(user, vhost, exchange, write, read)
    value = topic_permission_item(user, vhost, node.access.topic_permissions[(user, vhost, exchange)])
    node.record("topic_permission", (user, vhost, exchange), value)
    node.events.done("topic.permission.created", value)


def clear_topic_permission(node: Node, user: str, vhost: str, exchange: str) -> bool:
    found = node.access.clear_topic_permission(user, vhost, exchange)
    node.unrecord("topic_permission", (user, vhost, exchange))
    node.events.done("topic.permission.deleted", {"user": user, "vhost": vhost, "exchange": exchange})
    return found


def clear_topic_permissions(node: Node, user: str, vhost: str) -> None:
    for key in [key for key in node.access.topic_permissions if key[0] == user and key[1] == vhost]:
        clear_topic_permission(node, user, vhost, key[2])


def _cancel_unreadable(node: Node, user: str, vhost: str) -> None:
    connections = [
        connection
        for connection in node.connections.values()
        if connection.user == user and connection.vhost is not None and connection.vhost.name == vhost
    ]
    node.errands.begin(Revocation(node, connections), None)
    node.wake()


# -- policies ----------------------------------------------------------------------------------------------------------


def set_policy(
    node: Node,
    vhost: str,
    name: str,
    pattern: object,
    definition: object,
    priority: object,
    apply_to: object,
    kind: str = POLICY,
) -> Policy:
    """`kind`: of users or of operators."""
    rule = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
    return put_policy(node, kind, vhost, name, rule)


def put_policy(node: Node, kind: str, vhost: str, name: str, rule: dict[str, object]) -> Policy:
    place = vhost_of(node, vhost)
    policy = parse(kind, vhost, name, rule, node.policy_keys)
    place.policies.put(policy)
    node.record(policy.kind, (policy.vhost, policy.name), policy.item())
    if policy.kind == OPERATOR_POLICY:
        node.events.done("parameter.set", parameter_item(policy.vhost, OPERATOR_POLICY, policy.name, policy.rule()))
    node.events.done("policy.set", policy.item())
    place.reapply_policies(policy.item())
    return policy


def delete_policy(node: Node, vhost: str, name: str, kind: str = POLICY) -> bool:
    place = vhost_of(node, vhost)
    found = place.policies.delete(name, kind)
    node.unrecord(kind, (vhost, name))
    if kind == OPERATOR_POLICY:
        node.events.done("parameter.cleared", {"vhost": vhost, "component": OPERATOR_POLICY, "name": name})
    cleared = "operator.policy.cleared" if kind == OPERATOR_POLICY else "policy.cleared"
    node.events.done(cleared, {"vhost": vhost, "name": name})
    place.reapply_policies({})
    return found


# -- parameters and limits ---------------------------------------------------------------------------------------------


def set_parameter(node: Node, vhost: str, component: str, name: str, value: object) -> None:
    """Limits and operator policies are parameters too, as in RabbitMQ; others are kept for whoever reads them."""
    if component == VHOST_LIMITS_COMPONENT:
        set_vhost_limits(node, vhost, value)
    elif component == OPERATOR_POLICY:
        put_policy(node, OPERATOR_POLICY, vhost, name, _object(value))
    elif component == POLICY:
        raise ValidationFailed(["policies may not be set using this method"])
    else:
        vhost_of(node, vhost).parameters[(component, name)] = value
        definition = parameter_item(vhost, component, name, value)
        node.record("parameter", (vhost, component, name), definition)
        node.events.done("parameter.set", definition)


def parameters_of(vhost: VHost) -> list[dict[str, object]]:
    policies = vhost.policies.operator_policies
    items = [parameter_item(vhost.name, OPERATOR_POLICY, name, policies[name].rule()) for name in sorted(policies)]
    for component, name in sorted(vhost.parameters):
        items.append(parameter_item(vhost.name, component, name, vhost.parameters[(component, name)]))
    if vhost.limits:
        items.append(parameter_item(vhost.name, VHOST_LIMITS_COMPONENT, "limits", dict(vhost.limits)))
    return items


def clear_parameter(node: Node, vhost: str, component: str, name: str) -> bool:
    if component == OPERATOR_POLICY:
        return delete_policy(node, vhost, name, OPERATOR_POLICY)
    if component == VHOST_LIMITS_COMPONENT:
        found = bool(vhost_of(node, vhost).limits)
        set_vhost_limits(node, vhost, {})
        return found
    found = vhost_of(node, vhost).parameters.pop((component, name), None) is not None
    node.unrecord("parameter", (vhost, component, name))
    node.events.done("parameter.cleared", {"vhost": vhost, "component": component, "name": name})
    return found


def set_global_parameter(node: Node, name: str, value: object) -> None:
    if name == "cluster_name" and isinstance(value, str):
        node.settings.cluster_name = value
    node.global_parameters[name] = value
    node.record("global_parameter", (name,), {"name": name, "value": value})
    node.events.done("parameter.set", {"component": "global", "name": name, "value": value})


def clear_global_parameter(node: Node, name: str) -> bool:
    found = name in node.global_parameters
    node.global_parameters.pop(name, None)
    node.unrecord("global_parameter", (name,))
    node.events.done("parameter.cleared", {"component": "global", "name": name})
    return found


def set_vhost_limits(node: Node, vhost: str, limits: object) -> None:
    """Replaces them all."""
    place = vhost_of(node, vhost)
    place.limits = checked_limits(_object(limits), VHOST_LIMITS, "limits")
    if place.limits:
        node.record("vhost_limit", (vhost,), {"vhost": vhost, "value": dict(place.limits)})
    else:
        node.unrecord("vhost_limit", (vhost,))
    value: object = dict(place.limits) if place.limits else []
    node.events.done("parameter.set", parameter_item(vhost, VHOST_LIMITS_COMPONENT, "limits", value))
    node.events.done("vhost.limits.set", {"name": "limits", **place.limits})


def checked_limits(limits: dict[str, object], known: tuple[str, ...], where: str) -> dict[str, int]:
    checked: dict[str, int] = {}
    refusals: list[str] = []
    unknown: dict[str, object] = {}
    for name, value in limits.items():
        if name not in known:
            unknown[name] = value
        elif isinstance(value, int) and not isinstance(value, bool):
            checked[name] = value
        else:
            refusals.append(f"{name} should be a number, actually was {erlang_term(value)}")
    if unknown:
        refusals.insert(0, f"Unrecognised terms {erlang_pairs(unknown)} in {where}")
    if refusals:
        raise ValidationFailed(refusals)
    return checked


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValidationFailed([f"not a dictionary: {erlang_term(value)}"])
    return {str(key): item for key, item in value.items()}


# -- vhosts ------------------------------------------------------------------------------------------------------------


def update_vhost(node: Node, name: str, description: str, tags: list[str], default_queue_type: str | None) -> None:
    """Makes it when it is not there."""
    is_new = name not in node.vhosts
    vhost = node.add_vhost(name, description, tags, default_queue_type)
    vhost.description = description
    vhost.tags = tags
    vhost.default_queue_type = default_queue_type
    node.record("vhost", (name,), vhost_item(vhost))
    if not is_new:
        node.events.done("vhost.updated", node.vhost_facts(vhost))


def set_tracing(node: Node, name: str, is_on: bool) -> None:
    """The firehose of a vhost. It ends with the process, as in RabbitMQ: nobody wants to find it on by surprise."""
    vhost_of(node, name).tracing = is_on
    node.watching_changed()


def delete_vhost(node: Node, name: str) -> bool:
    """With all that is in it and all rights on it."""
    vhost = node.vhosts.get(name)
    if vhost is None:
        return False
    for permission in [key for key in node.access.permissions if key[1] == name]:
        node.unrecord("permission", permission)
        node.events.done("permission.deleted", {"user": permission[0], "vhost": name})
    for topic_permission in [key for key in node.access.topic_permissions if key[1] == name]:
        node.unrecord("topic_permission", topic_permission)
    for kind in (POLICY, OPERATOR_POLICY):
        for policy in vhost.policies.named(kind):
            node.unrecord(kind, (name, policy))
    for component, parameter in vhost.parameters:
        node.unrecord("parameter", (name, component, parameter))
    node.unrecord("vhost_limit", (name,))
    return node.delete_vhost(name)
