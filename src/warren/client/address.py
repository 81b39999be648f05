"""Where a broker listens and who we are there: amqp:// and amqps:// addresses, in RabbitMQ's dialect of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from warren.errors import WarrenError

DEFAULT_URI: Final = "amqp://guest:guest@127.0.0.1:5672/%2F"
DEFAULT_PORT: Final = 5672
DEFAULT_TLS_PORT: Final = 5671
CONNECT_SECONDS: Final = 10.0
_PARAMETERS: Final = "cacertfile, certfile, keyfile, verify, server_name_indication, heartbeat, connection_timeout"


@dataclass(frozen=True)
class BrokerAddress:
    host: str
    port: int
    user: str
    password: str
    vhost: str
    is_tls: bool = False
    # Files with the authorities to trust (the system's when empty), and with our own certificate.
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    # Off only by verify=verify_none: a stranger could answer then.
    is_verified: bool = True
    server_name: str = ""
    # Seconds. A heartbeat of None is whatever the caller of the connection prefers.
    heartbeat: int | None = None
    connect_timeout: float = CONNECT_SECONDS

    @property
    def place(self) -> str:
        """For messages to people: without the password."""
        return f"{self.host}:{self.port}"


def parse_uri(uri: str) -> BrokerAddress:
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise WarrenError(f"{_without_password(uri)} is not an address like {DEFAULT_URI}: {error}") from error
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise WarrenError(f"{_without_password(uri)} is not an address like {DEFAULT_URI}")
    is_tls = parts.scheme == "amqps"
    given = _parameters(parts)
    if not is_tls and given.keys() & {"cacertfile", "certfile", "keyfile", "verify", "server_name_indication"}:
        raise WarrenError(f"{_without_password(uri)} names certificates, but only amqps:// uses any")
    verify = given.get("verify", "verify_peer")
    if verify not in ("verify_peer", "verify_none"):
        raise WarrenError(f"verify={verify} in an address is neither verify_peer nor verify_none")
    return BrokerAddress(
        parts.hostname,
        port or (DEFAULT_TLS_PORT if is_tls else DEFAULT_PORT),
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        unquote(parts.path[1:]) or "/",
        is_tls,
        given.get("cacertfile", ""),
        given.get("certfile", ""),
        given.get("keyfile", ""),
        verify == "verify_peer",
        given.get("server_name_indication", ""),
        _number(given, "heartbeat") if "heartbeat" in given else None,
        # Milliseconds, as RabbitMQ's own clients have it.
        _number(given, "connection_timeout") / 1000 if "connection_timeout" in given else CONNECT_SECONDS,
    )


def _parameters(parts: SplitResult) -> dict[str, str]:
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in given:
        if name not in _PARAMETERS.split(", "):
            raise WarrenError(f"an address has no parameter {name}; there are {_PARAMETERS}")
    return given


def _number(given: dict[str, str], name: str) -> int:
    value = given[name]
    if not value.isdecimal():
        raise WarrenError(f"{name}={value} in an address is not a number")
    return int(value)


def _without_password(uri: str) -> str:
    """An address that cannot be parsed may still hold a password, and messages end up in logs."""
    scheme, found, rest = uri.partition("://")
    if not found or "@" not in rest:
        return uri
    login, _, place = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}:***@{place}"
