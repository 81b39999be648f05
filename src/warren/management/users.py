"""/api/users"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker.operate import administer
from warren.broker.rules import hashing
from warren.broker.rules.access import User
from warren.broker.vhost.shapes import user_item
from warren.management import permissions
from warren.management.calls import Call, Needs, deleted, done, found, route
from warren.management.listing import Item
from warren.management.refusals import bad_request
from warren.management.spec import TAGS, TEXT, TEXTS, gives, takes
from warren.management.vhosts import tags_of


async def list_users(call: Call) -> Response:
    return await call.listing(list(call.node.access.users.values()), user_item)


async def show(call: Call) -> Response:
    return call.item(user_item(find(call)))


@takes("tags", tags=TAGS, password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT)
async def put(call: Call) -> Response:
    name, body = call.path("user"), await call.body()
    if "tags" not in body:
        raise bad_request("tags_not_present")
    algorithm, password_hash = await credentials_in(call, body)
    call.take_turn()
    before = call.node.access.users.get(name)
    limits = {} if before is None else before.limits
    administer.put_user(call.node, User(name, password_hash, algorithm, tags_of(body["tags"]), limits))
    return done(before is None)


async def credentials_in(call: Call, body: Item) -> tuple[str, str]:
    """From a password, or a hash made elsewhere. With neither, the user cannot log in with a password."""
    password, password_hash = body.get("password"), body.get("password_hash")
    if password is not None and password_hash is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    if password is not None:
        if not isinstance(password, str) or not password:
            raise bad_request("password must be a text that is not empty")
        return await call.context.hash_password(password)
    algorithm = body.get("hashing_algorithm") or hashing.SHA256
    if not isinstance(algorithm, str) or not isinstance(password_hash, str | None):
        raise bad_request("password_hash and hashing_algorithm must be text")
    refusal = hashing.refusal_of(algorithm, password_hash or "")
    if refusal:
        raise bad_request(refusal)
    return algorithm, password_hash or ""


async def delete(call: Call) -> Response:
    return deleted(administer.delete_user(call.node, call.path("user")))


@takes("users", users=TEXTS)
@gives({204: None})
async def delete_many(call: Call) -> Response:
    names = call.required(await call.body(), "users")["users"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users must be a list of names")
    for name in names:
        if name not in call.node.access.users:
            raise bad_request(["no_such_user", name])
    for name in names:
        administer.delete_user(call.node, name)
    return done()


async def list_idle(call: Call) -> Response:
    """Those who may use no virtual host at all."""
    allowed = {user for user, _ in call.node.access.permissions}
    users = [user for user in call.node.access.users.values() if user.name not in allowed]
    return await call.listing(users, user_item)


async def list_permissions(call: Call) -> Response:
    find(call)
    return await permissions.list_permissions(call)


async def list_topic_permissions(call: Call) -> Response:
    find(call)
    return await permissions.list_topics(call)


def find(call: Call) -> User:
    return found(call.node.access.users.get(call.path("user")))


ROUTES: Final = [
    route("/api/users", Needs.ADMINISTRATOR, GET=list_users),
    route("/api/users/bulk-delete", Needs.ADMINISTRATOR, POST=delete_many),
    route("/api/users/without-permissions", Needs.ADMINISTRATOR, GET=list_idle),
    route("/api/users/{user}", Needs.ADMINISTRATOR, GET=show, PUT=put, DELETE=delete),
    route("/api/users/{user}/permissions", Needs.ADMINISTRATOR, GET=list_permissions),
    route("/api/users/{user}/topic-permissions", Needs.ADMINISTRATOR, GET=list_topic_permissions),
]
