"""Policies, runtime parameters (vhost limits and operator policies among them) and global parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from warren.broker.operate import administer
from warren.broker.operate.definitions.section import Names, Section
from warren.broker.rules.document import Item
from warren.broker.rules.policies import OPERATOR_POLICY, POLICY, ValidationFailed, parse

if TYPE_CHECKING:
    from warren.broker.node import Node
    from warren.broker.vhost.vhost import VHost

# RabbitMQ's own bookkeeping, which its exports leave out and older ones did not.
_INTERNAL: Final = "internal"


class Policies(Section):
    """Policies take effect when the import is through, all at once: `vhost.reapply_policies`.

    Those of operators come only as they were recorded; in a document they are parameters.
    """

    def check(self, item: Item, names: Names) -> bool:
        try:
            parse(self.kind, names.vhost(item), item.text("name"), item.fields, names.node.policy_keys)
        except ValidationFailed as error:
            raise item.refused("; ".join(error.refusals)) from None
        return True

    def apply(self, item: Item, node: Node) -> None:
        # It was checked, or recorded: then by a broker that may have had more extensions than this one.
        policy = parse(self.kind, item.text("vhost"), item.text("name"), item.fields, None)
        administer.vhost_of(node, policy.vhost).policies.put(policy)
        node.record(self.kind, (policy.vhost, policy.name), policy.item())

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        policies = vhost.policies.named(self.kind)
        return [policies[name].item() for name in sorted(policies)]


class VHostLimits(Section):
    """As they were recorded; in a document they are parameters."""

    def apply(self, item: Item, node: Node) -> None:
        administer.set_vhost_limits(node, item.text("vhost"), item.object("value"))


class Parameters(Section):
    def check(self, item: Item, names: Names) -> bool:
        vhost = names.vhost(item)
        component, name = item.text("component"), item.text("name")
        try:
            if component == OPERATOR_POLICY:
                parse(component, vhost, name, item.object("value"), names.node.policy_keys)
            elif component == administer.VHOST_LIMITS_COMPONENT:
                administer.checked_limits(item.object("value"), administer.VHOST_LIMITS, name)
            elif component == POLICY:
                raise item.error("component", "policies stand in a list of their own")
        except ValidationFailed as error:
            raise item.error("value", "; ".join(error.refusals)) from None
        return True

    def apply(self, item: Item, node: Node) -> None:
        administer.set_parameter(
            node, item.text("vhost"), item.text("component"), item.text("name"), item.fields.get("value")
        )

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        return administer.parameters_of(vhost)


class GlobalParameters(Section):
    def check(self, item: Item, names: Names) -> bool:
        return not item.text("name").startswith(_INTERNAL)

    def apply(self, item: Item, node: Node) -> None:
        administer.set_global_parameter(node, item.text("name"), item.fields.get("value"))

    def export(self, node: Node, vhost: str | None) -> Iterable[dict[str, object]]:
        return [{"name": name, "value": node.global_parameters[name]} for name in sorted(node.global_parameters)]
