"""Who may do what: users, their permissions on the resources of a vhost, and on topics.

Asked on every publish, so answers are remembered until something changes. Whether a password is right is not asked
here: hashes are checked by the server (server/passwords.py), which may take its time.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

from mypy_extensions import i64

from warren.broker.rules.pattern import Pattern
from warren.errors import AccessRefused, WarrenError

# The name under which the default exchange stands in permissions and refusals.
DEFAULT_EXCHANGE: Final = "amq.default"
# It must fit into the user_id property.
NAME_BYTES_MAX: Final = 255
TAGS_MAX: Final = 32
USER_LIMITS: Final = ("max-connections", "max-channels")
_EXPANDED_BYTES_MAX: Final = 65536
# Routing keys and names come from clients: what is remembered about them is bounded.
_REMEMBERED_MAX: Final = 8192
# The address of almost everybody who is on this machine; others are looked at.
_LOOPBACK: Final = ("127.0.0.1", "::1")


class UserError(WarrenError):
    """A user or permission that cannot be."""


class User:
    def __init__(
        self,
        name: str,
        password_hash: str = "",
        hashing_algorithm: str = "",
        tags: list[str] | None = None,
        limits: dict[str, int] | None = None,
    ) -> None:
        self.name = name
        # Empty: nobody logs in with a password (a user of TLS certificates).
        self.password_hash = password_hash
        self.hashing_algorithm = hashing_algorithm
        self.tags: list[str] = [] if tags is None else tags
        self.limits: dict[str, int] = {} if limits is None else limits

    def is_administrator(self) -> bool:
        return "administrator" in self.tags

    def is_monitoring(self) -> bool:
        return self.is_administrator() or "monitoring" in self.tags

    def is_policymaker(self) -> bool:
        return self.is_administrator() or "policymaker" in self.tags

    def is_management(self) -> bool:
        return self.is_monitoring() or self.is_policymaker() or "management" in self.tags

    def may_impersonate(self) -> bool:
        """May publish with another user's name in the user_id property."""
        return "impersonator" in self.tags


class Permission:
    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure = configure
        self.write = write
        self.read = read
        self._configure = Pattern(_or_nothing(configure))
        self._write = Pattern(_or_nothing(write))
        self._read = Pattern(_or_nothing(read))

    def allows(self, action: str, name: str) -> bool:
        if action == "write":
            return self._write.matches(name)
        if action == "read":
            return self._read.matches(name)
        return action == "configure" and self._configure.matches(name)


class TopicPermission:
    """On routing keys of one topic exchange. {username} and {vhost} stand for the user's own, taken literally."""

    def __init__(self, exchange: str, write: str, read: str, user: str, vhost: str) -> None:
        self.exchange = exchange
        self.write = write
        self.read = read
        self._write = _expanded(write, user, vhost)
        self._read = _expanded(read, user, vhost)

    def allows(self, action: str, routing_key: str) -> bool:
        if action == "write":
            return self._write.matches(routing_key)
        return action == "read" and self._read.matches(routing_key)


class Access:
    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        # Grows with every change: whoever remembers an answer remembers this number beside it.
        self.generation: i64 = 0
        self._allowed: dict[tuple[str, str, str, str], bool] = {}
        self._topics: dict[tuple[str, str, str, str, str], bool] = {}

    def may_access_vhost(self, user: str, vhost: str) -> bool:
        return (user, vhost) in self.permissions

    def is_allowed(self, user: str, vhost: str, name: str, action: str) -> bool:
        question = (user, vhost, action, name)
        answer = self._allowed.get(question)
        if answer is None:
            permission = self.permissions.get((user, vhost))
            answer = permission is not None and permission.allows(action, name)
            if len(self._allowed) >= _REMEMBERED_MAX:
                self._allowed.clear()
            self._allowed[question] = answer
        return answer

    def check(self, user: str, vhost: str, kind: str, name: str, action: str) -> None:
        """kind: queue or exchange; action: configure, write or read."""
        if kind == "exchange" and not name:
            name = DEFAULT_EXCHANGE
        if not self.is_allowed(user, vhost, name, action):
            raise AccessRefused(f"{action} access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'")

    def check_any(self, user: str, vhost: str, kind: str, name: str) -> None:
        """A passive declare: whoever may do anything with it may know that it exists."""
        asked = DEFAULT_EXCHANGE if kind == "exchange" and not name else name
        if self.is_allowed(user, vhost, asked, "read") or self.is_allowed(user, vhost, asked, "write"):
            return
        self.check(user, vhost, kind, name, "configure")

    def check_topic(self, user: str, vhost: str, exchange: str, routing_key: str, action: str) -> None:
        """For topic exchanges only, after `check`. Who has no topic permission there may use every key."""
        if not self.topic_permissions:
            return
        permission = self.topic_permissions.get((user, vhost, exchange))
        if permission is None:
            return
        question = (user, vhost, exchange, action, routing_key)
        answer = self._topics.get(question)
        if answer is None:
            answer = permission.allows(action, routing_key)
            if len(self._topics) >= _REMEMBERED_MAX:
                self._topics.clear()
            self._topics[question] = answer
        if not answer:
            raise AccessRefused(
                f"{action} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' "
                f"refused for user '{user}'"
            )

    def put_user(self, user: User) -> None:
        if not user.name:
            raise UserError("user name is empty")
        if len(user.name.encode(errors="surrogateescape")) > NAME_BYTES_MAX:
            raise UserError(f"user name is longer than {NAME_BYTES_MAX} bytes")
        if len(user.tags) > TAGS_MAX:
            raise UserError(f"user '{user.name}' has more than {TAGS_MAX} tags")
        self.users[user.name] = user
        self._changed()

    def delete_user(self, name: str) -> bool:
        """Takes the user's permissions along. False when there was none."""
        if self.users.pop(name, None) is None:
            return False
        for pair in [key for key in self.permissions if key[0] == name]:
            del self.permissions[pair]
        for triple in [key for key in self.topic_permissions if key[0] == name]:
            del self.topic_permissions[triple]
        self._changed()
        return True

    def set_permission(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self._require(user)
        self.permissions[(user, vhost)] = Permission(configure, write, read)
        self._changed()

    def clear_permission(self, user: str, vhost: str) -> bool:
        found = self.permissions.pop((user, vhost), None) is not None
        self._changed()
        return found

    def set_topic_permission(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self._require(user)
        self.topic_permissions[(user, vhost, exchange)] = TopicPermission(exchange, write, read, user, vhost)
        self._changed()

    def clear_topic_permission(self, user: str, vhost: str, exchange: str) -> bool:
        found = self.topic_permissions.pop((user, vhost, exchange), None) is not None
        self._changed()
        return found

    def forget_vhost(self, vhost: str) -> None:
        """A vhost was deleted: one of the same name that comes later must not inherit its permissions."""
        for pair in [key for key in self.permissions if key[1] == vhost]:
            del self.permissions[pair]
        for triple in [key for key in self.topic_permissions if key[1] == vhost]:
            del self.topic_permissions[triple]
        self._changed()

    def _require(self, user: str) -> None:
        if user not in self.users:
            raise UserError(f"no user '{user}'")

    def _changed(self) -> None:
        self._allowed.clear()
        self._topics.clear()
        self.generation += 1


def is_loopback(peer: str) -> bool:
    """Is this peer on this machine? Asked of the peer's address, never of the listener's."""
    if peer in _LOOPBACK:
        return True
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _or_nothing(pattern: str) -> str:
    # An empty regular expression would match every name; in a permission it means none.
    return pattern or "^$"


def _expanded(pattern: str, user: str, vhost: str) -> Pattern:
    Pattern(pattern)
    expanded = _or_nothing(pattern)
    # Escaped: a user named `.*` must not gain the keys of others.
    if user:
        expanded = expanded.replace("{username}", escape(user))
    if vhost:
        expanded = expanded.replace("{vhost}", escape(vhost))
    return Pattern(expanded, _EXPANDED_BYTES_MAX)


def escape(literal: str) -> str:
    """The pattern that matches exactly this, inside a character class too."""
    return "".join(["\\" + character if character in "\\^$.|?*+()[]{}-" else character for character in literal])
