"""/api/vhost-limits and /api/user-limits"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.management.calls import Call, Needs, done, found, route
from warren.management.refusals import bad_request
from warren.management.spec import NUMBER, gives, takes


async def list_of_vhosts(call: Call) -> Response:
    return await call.items([{"vhost": vhost.name, "value": vhost.limits} for vhost in call.vhosts() if vhost.limits])


@takes("value", value=NUMBER)
@gives({204: None})
async def put_vhost_limit(call: Call) -> Response:
    vhost = call.vhost()
    body = call.required(await call.body(), "value")
    administer.set_vhost_limits(call.node, vhost.name, {**vhost.limits, call.path("name"): body["value"]})
    return done()


async def delete_vhost_limit(call: Call) -> Response:
    vhost, name = call.vhost(), call.path("name")
    administer.set_vhost_limits(call.node, vhost.name, {key: vhost.limits[key] for key in vhost.limits if key != name})
    return done()


async def list_of_users(call: Call) -> Response:
    return await call.items([{"user": user.name, "value": user.limits} for user in visible(call) if user.limits])


async def show_user(call: Call) -> Response:
    user = found(call.node.access.users.get(call.path("user")))
    return await call.items(
        [{"user": user.name, "value": user.limits}] if user.limits and user in visible(call) else []
    )


def visible(call: Call) -> list[User]:
    """Without the monitoring tag, only oneself."""
    return [user for user in call.node.access.users.values() if call.user.is_monitoring() or user is call.user]


@takes("value", value=NUMBER)
@gives({204: None})
async def put_user_limit(call: Call) -> Response:
    name = call.path("user")
    body = call.required(await call.body(), "value")
    user = call.node.access.users.get(name)
    if user is None:
        raise bad_request(["no_such_user", name])
    administer.set_user_limits(call.node, name, {**user.limits, call.path("name"): body["value"]})
    return done()


async def delete_user_limit(call: Call) -> Response:
    user, name = found(call.node.access.users.get(call.path("user"))), call.path("name")
    administer.set_user_limits(call.node, user.name, {key: user.limits[key] for key in user.limits if key != name})
    return done()


ROUTES: Final = [
    route("/api/vhost-limits", GET=list_of_vhosts),
    route("/api/vhost-limits/{vhost}", GET=list_of_vhosts),
    route("/api/vhost-limits/{vhost}/{name}", Needs.ADMINISTRATOR, PUT=put_vhost_limit, DELETE=delete_vhost_limit),
    route("/api/user-limits", GET=list_of_users),
    route("/api/user-limits/{user}", GET=show_user),
    route("/api/user-limits/{user}/{name}", Needs.ADMINISTRATOR, PUT=put_user_limit, DELETE=delete_user_limit),
]
