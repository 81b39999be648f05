"""/api/policies and /api/operator-policies: the same, but for who may set them and which settings they may hold."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker.operate import administer
from warren.broker.rules.policies import OPERATOR_POLICY, POLICY
from warren.management.calls import Call, Needs, Resource, deleted, done, found, route
from warren.management.spec import NUMBER, OBJECT, TEXT, takes


class PolicyRoutes:
    """Those of one kind; what is in them is checked by the broker."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def list_policies(self, call: Call) -> Response:
        return call.listing(
            [policy.item() for vhost in call.ruled_vhosts() for policy in vhost.policies.named(self.kind).values()]
        )

    async def show(self, call: Call) -> Response:
        return call.item(found(call.ruled_vhost().policies.named(self.kind).get(call.path("name"))).item())

    @takes("pattern", "definition", pattern=TEXT, definition=OBJECT, priority=NUMBER, apply__to=TEXT)
    async def put(self, call: Call) -> Response:
        vhost, name = call.vhost(), call.path("name")
        is_new = name not in vhost.policies.named(self.kind)
        rule = call.required(await call.body(), "pattern", "definition")
        administer.put_policy(call.node, self.kind, vhost.name, name, rule)
        return done(is_new)

    async def delete(self, call: Call) -> Response:
        return deleted(administer.delete_policy(call.node, call.vhost().name, call.path("name"), self.kind))

    def routes(self, path: str, needs: Needs) -> list[Resource]:
        return [
            route(path, GET=self.list_policies),
            route(f"{path}/{{vhost}}", GET=self.list_policies),
            route(f"{path}/{{vhost}}/{{name}}", needs, GET=self.show, PUT=self.put, DELETE=self.delete),
        ]


ROUTES: Final = [
    *PolicyRoutes(POLICY).routes("/api/policies", Needs.POLICYMAKER),
    *PolicyRoutes(OPERATOR_POLICY).routes("/api/operator-policies", Needs.ADMINISTRATOR),
]
