"""Policies, runtime parameters (vhost limits and operator policies among them) and global parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker import administer
from warren.broker.definitions.document import Item
from warren.broker.definitions.section import Names, Section, vhosts_of
from warren.broker.policies import Policy, ValidationFailed, parse, parse_operator

if TYPE_CHECKING:
    from warren.broker.node import Node

# RabbitMQ's own bookkeeping, which its exports leave out and older ones did not.
_INTERNAL: Final = "internal"


class Policies(Section):
    """Policies take effect when the import is through, all at once: `vhost.reapply_policies`."""

    def __init__(self) -> None:
        super().__init__("policies", "policy")

    def check(self, item: Item, names: Names) -> bool:
        names.vhost(item)
        try:
            _read(item)
        except ValidationFailed as error:
            raise item.refused("; ".join(error.refusals)) from None
        return True

    def apply(self, item: Item, node: Node) -> None:
        policy = _read(item)
        administer.vhost_of(node, policy.vhost).policies.put(policy)
        node.record("policy", (policy.vhost, policy.name), administer.policy_definition(policy))

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for place in vhosts_of(node, vhost):
            policies = place.policies.policies
            exported += [administer.policy_definition(policies[name]) for name in sorted(policies)]
        return exported


class OperatorPolicies(Section):
    """As they were recorded; in a document they are parameters."""

    def __init__(self) -> None:
        super().__init__("", "operator_policy")

    def apply(self, item: Item, node: Node) -> None:
        policy = _read_operator(item.text("vhost"), item.text("name"), item)
        administer.vhost_of(node, policy.vhost).policies.put_operator(policy)


class VHostLimits(Section):
    """As they were recorded; in a document they are parameters."""

    def __init__(self) -> None:
        super().__init__("", "vhost_limit")

    def apply(self, item: Item, node: Node) -> None:
        administer.set_vhost_limits(node, item.text("vhost"), item.object("value"))


class Parameters(Section):
    def __init__(self) -> None:
        super().__init__("parameters", "parameter")

    def check(self, item: Item, names: Names) -> bool:
        vhost = names.vhost(item)
        component, name = item.text("component"), item.text("name")
        try:
            if component == administer.OPERATOR_POLICY:
                _read_operator(vhost, name, Item(f"{item.place}.value", item.object("value")))
            elif component == administer.VHOST_LIMITS_COMPONENT:
                administer.checked_limits(item.object("value"), administer.VHOST_LIMITS, name)
            elif component == "policy":
                raise item.error("component", "policies stand in a list of their own")
        except ValidationFailed as error:
            raise item.error("value", "; ".join(error.refusals)) from None
        return True

    def apply(self, item: Item, node: Node) -> None:
        administer.set_parameter(
            node, item.text("vhost"), item.text("component"), item.text("name"), item.fields.get("value")
        )

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for place in vhosts_of(node, vhost):
            operator_policies = place.policies.operator_policies
            for name in sorted(operator_policies):
                value = administer.policy_definition(operator_policies[name])
                del value["vhost"], value["name"]
                exported.append(_parameter(place.name, administer.OPERATOR_POLICY, name, value))
            for component, name in sorted(place.parameters):
                exported.append(_parameter(place.name, component, name, place.parameters[(component, name)]))
            if place.limits:
                limits: dict[str, object] = dict(place.limits)
                exported.append(_parameter(place.name, administer.VHOST_LIMITS_COMPONENT, "limits", limits))
        return exported


class GlobalParameters(Section):
    def __init__(self) -> None:
        super().__init__("global_parameters", "global_parameter")

    def check(self, item: Item, names: Names) -> bool:
        return not item.text("name").startswith(_INTERNAL)

    def apply(self, item: Item, node: Node) -> None:
        administer.set_global_parameter(node, item.text("name"), item.fields.get("value"))

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        return [{"name": name, "value": node.global_parameters[name]} for name in sorted(node.global_parameters)]


def _parameter(vhost: str, component: str, name: str, value: object) -> dict[str, object]:
    return {"vhost": vhost, "component": component, "name": name, "value": value}


def _read(item: Item) -> Policy:
    fields = item.fields
    return parse(
        item.text("vhost"),
        item.text("name"),
        fields.get("pattern"),
        fields.get("definition"),
        fields.get("priority", 0),
        fields.get("apply-to", "all"),
    )


def _read_operator(vhost: str, name: str, item: Item) -> Policy:
    fields = item.fields
    return parse_operator(
        vhost,
        name,
        fields.get("pattern"),
        fields.get("definition"),
        fields.get("priority", 0),
        fields.get("apply-to", "all"),
    )
