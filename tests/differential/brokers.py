"""A broker that sessions run against: where it listens, and what an operator can do to it."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Final, Protocol

PATIENCE: Final = 60.0


@dataclass(frozen=True)
class Address:
    host: str
    port: int


class Admin(Protocol):
    """What an operator does to a broker."""

    def add_user(
        self,
        name: str,
        password: str,
        tags: str = ...,
        vhost: str = ...,
        configure: str = ...,
        write: str = ...,
        read: str = ...,
    ) -> None: ...
    def set_topic_permission(self, user: str, exchange: str, write: str, read: str, vhost: str = ...) -> None: ...
    def set_password(self, user: str, password: str) -> None: ...
    def set_user_limit(self, user: str, limit: str, value: int) -> None: ...
    def delete_user(self, name: str) -> None: ...
    def add_vhost(self, name: str) -> None: ...
    def set_vhost_limit(self, vhost: str, limit: str, value: int) -> None: ...
    def delete_vhost(self, name: str) -> None: ...
    def set_policy(
        self, name: str, pattern: str, definition: dict[str, object], apply_to: str = ..., vhost: str = ...
    ) -> None: ...
    def delete_policy(self, name: str, vhost: str = ...) -> None: ...
    def close_connections_of(self, user: str, reason: str) -> None: ...
    def set_alarm(self, name: str, on: bool) -> None: ...
    def shut_down(self) -> None: ...


class HttpAdmin:
    """The management API, RabbitMQ's or Warren's."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest") -> None:
        self._url = url.rstrip("/")
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def add_user(
        self,
        name: str,
        password: str,
        tags: str = "",
        vhost: str = "/",
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> None:
        self._request("PUT", ("users", name), {"password": password, "tags": tags})
        if vhost:
            self.set_permissions(name, vhost, configure, write, read)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        rights = {"configure": configure, "write": write, "read": read}
        self._request("PUT", ("permissions", vhost, user), rights)

    def set_topic_permission(self, user: str, exchange: str, write: str, read: str, vhost: str = "/") -> None:
        rights = {"exchange": exchange, "write": write, "read": read}
        self._request("PUT", ("topic-permissions", vhost, user), rights)

    def set_password(self, user: str, password: str) -> None:
        self._request("PUT", ("users", user), {"password": password, "tags": ""})

    def set_user_limit(self, user: str, limit: str, value: int) -> None:
        self._request("PUT", ("user-limits", user, limit), {"value": value})

    def delete_user(self, name: str) -> None:
        self._delete("users", name)

    def add_vhost(self, name: str) -> None:
        self._request("PUT", ("vhosts", name), {})
        self.set_permissions("guest", name, ".*", ".*", ".*")

    def set_vhost_limit(self, vhost: str, limit: str, value: int) -> None:
        self._request("PUT", ("vhost-limits", vhost, limit), {"value": value})

    def delete_vhost(self, name: str) -> None:
        self._delete("vhosts", name)

    def set_policy(
        self, name: str, pattern: str, definition: dict[str, object], apply_to: str = "all", vhost: str = "/"
    ) -> None:
        policy = {"pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": 0}
        self._request("PUT", ("policies", vhost, name), policy)

    def delete_policy(self, name: str, vhost: str = "/") -> None:
        self._delete("policies", vhost, name)

    def close_connections_of(self, user: str, reason: str) -> None:
        """Ends a user's connections as an administrator does. The API shows a new connection only after a while."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            names = [entry["name"] for entry in self._connections() if entry.get("user") == user]
            for name in names:
                self._request("DELETE", ("connections", name), headers={"X-Reason": reason})
            if names:
                return
            time.sleep(0.1)
        raise TimeoutError(f"the management API shows no connection of {user}")

    def set_alarm(self, name: str, on: bool) -> None:
        raise NotImplementedError("the management API cannot raise an alarm")

    def shut_down(self) -> None:
        raise NotImplementedError("the management API cannot stop a broker")

    def is_up(self) -> bool:
        try:
            self._request("GET", ("overview",))
        except OSError:
            return False
        return True

    def _delete(self, *path: str) -> None:
        try:
            self._request("DELETE", path)
        except urllib.error.HTTPError as error:
            # Scripts may have deleted it themselves.
            if error.code != 404:
                raise

    def _connections(self) -> list[dict[str, str]]:
        answer = self._request("GET", ("connections",))
        assert isinstance(answer, list)
        return answer

    def _request(
        self, verb: str, path: tuple[str, ...], body: object = None, headers: dict[str, str] | None = None
    ) -> object:
        url = "/".join([self._url, "api", *(urllib.parse.quote(part, safe="") for part in path)])
        data = None if body is None else json.dumps(body).encode()
        given = {"Authorization": self._authorization, "Content-Type": "application/json"} | (headers or {})
        request = urllib.request.Request(url, data, given, method=verb)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None


@dataclass(frozen=True)
class Broker:
    """A running broker and the way to administer it."""

    name: str
    address: Address
    admin: Admin
