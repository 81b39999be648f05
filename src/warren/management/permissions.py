"""/api/permissions and /api/topic-permissions"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker.operate import administer
from warren.broker.vhost.shapes import permission_item, topic_permission_item
from warren.management.calls import Call, Needs, deleted, done, found, route
from warren.management.listing import Item
from warren.management.refusals import bad_request
from warren.management.spec import TEXT, takes

_ACTIONS: Final = ("configure", "write", "read")


def all_of(call: Call) -> list[Item]:
    rights = call.node.access.permissions
    return asked_for(call, [permission_item(*key, each) for key, each in rights.items()])


def all_topics_of(call: Call) -> list[Item]:
    rights = call.node.access.topic_permissions
    return asked_for(call, [topic_permission_item(key[0], key[1], each) for key, each in rights.items()])


def asked_for(call: Call, items: list[Item]) -> list[Item]:
    """Of the virtual host and of the user in the path, where it names one."""
    if "vhost" in call.request.path_params:
        vhost = call.vhost().name
        items = [item for item in items if item["vhost"] == vhost]
    if "user" in call.request.path_params:
        user = call.path("user")
        items = [item for item in items if item["user"] == user]
    return items


async def list_permissions(call: Call) -> Response:
    return await call.items(all_of(call))


async def show(call: Call) -> Response:
    return call.item(found(next(iter(all_of(call)), None)))


@takes("configure", "write", "read", configure=TEXT, write=TEXT, read=TEXT)
async def put(call: Call) -> Response:
    user, vhost = both_exist(call)
    patterns = texts_in(call, await call.body(), _ACTIONS)
    is_new = not call.node.access.may_access_vhost(user, vhost)
    administer.set_permission(call.node, user, vhost, *patterns)
    return done(is_new)


async def delete(call: Call) -> Response:
    return deleted(administer.clear_permission(call.node, call.path("user"), call.path("vhost")))


async def list_topics(call: Call) -> Response:
    return await call.items(all_topics_of(call))


async def show_topics(call: Call) -> Response:
    return await call.items(found(all_topics_of(call) or None))


@takes("exchange", "write", "read", exchange=TEXT, write=TEXT, read=TEXT)
async def put_topic(call: Call) -> Response:
    user, vhost = both_exist(call)
    exchange, write, read = texts_in(call, await call.body(), ("exchange", "write", "read"))
    is_new = (user, vhost, exchange) not in call.node.access.topic_permissions
    administer.set_topic_permission(call.node, user, vhost, exchange, write, read)
    return done(is_new)


async def delete_topics(call: Call) -> Response:
    administer.clear_topic_permissions(call.node, call.path("user"), call.path("vhost"))
    return done()


def both_exist(call: Call) -> tuple[str, str]:
    user, vhost = call.path("user"), call.path("vhost")
    if call.node.access.users.get(user) is None or vhost not in call.node.vhosts:
        raise bad_request("vhost_or_user_not_found")
    return user, vhost


def texts_in(call: Call, body: Item, keys: tuple[str, ...]) -> list[str]:
    call.required(body, *keys)
    for key in keys:
        if not isinstance(body[key], str):
            raise bad_request(f"{key} must be text")
    return [body[key] for key in keys]


ROUTES: Final = [
    route("/api/permissions", Needs.ADMINISTRATOR, GET=list_permissions),
    route("/api/permissions/{vhost}/{user}", Needs.ADMINISTRATOR, GET=show, PUT=put, DELETE=delete),
    route("/api/vhosts/{vhost}/permissions", Needs.ADMINISTRATOR, GET=list_permissions),
    route("/api/topic-permissions", Needs.ADMINISTRATOR, GET=list_topics),
    route(
        "/api/topic-permissions/{vhost}/{user}",
        Needs.ADMINISTRATOR,
        GET=show_topics,
        PUT=put_topic,
        DELETE=delete_topics,
    ),
    route("/api/vhosts/{vhost}/topic-permissions", Needs.ADMINISTRATOR, GET=list_topics),
]
