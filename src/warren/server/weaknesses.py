"""What of a configuration an attacker would like, one line each: `warren doctor --security`. See docs/security.md."""

from __future__ import annotations

import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warren.broker.rules.access import is_loopback
from warren.config import Config

# Limits that 0 turns off, and what is then possible.
_SWITCHES: Final = {
    "login_failures_max": "passwords can be guessed as fast as they are checked",
    "memory_high_watermark": "publishers can fill the memory",
    "disk_free_limit": "publishers can fill the disk",
}
# Well above what RabbitMQ allows by itself.
_MESSAGE_BYTES: Final = 128 * 1024 * 1024
_DESCRIPTORS: Final = 4096


def weaknesses(config: Config) -> list[tuple[str, str]]:
    """The option or thing, and what is wrong with it."""
    is_open = config.host != "localhost" and not is_loopback(config.host)
    return [*_limits(config), *_login(config), *(_network(config) if is_open else ()), *_machine(config)]


def _limits(config: Config) -> Iterator[tuple[str, str]]:
    for name, consequence in _SWITCHES.items():
        if getattr(config, name) == 0:
            yield name, f"is off: {consequence}"
    if config.max_message_size > _MESSAGE_BYTES:
        yield "max_message_size", f"lets one message take {config.max_message_size} bytes of memory"


def _login(config: Config) -> Iterator[tuple[str, str]]:
    is_guessed = config.default_user and config.default_password in ("guest", config.default_user, "")
    if is_guessed and config.default_user not in config.loopback_users:
        yield "default_password", f"of '{config.default_user}' can be guessed, and the user may come from anywhere"


def _network(config: Config) -> Iterator[tuple[str, str]]:
    """Where others than this machine get to the ports."""
    if not config.has_tls:
        yield "tls_cert", f"is not set: passwords and messages cross the network of {config.host} in the clear"
    elif config.http_port >= 0 and not config.http_tls:
        yield "http_tls", "is off: passwords of the management API cross the network in the clear"
    if config.has_tls and config.stream_port >= 0 and not config.stream_tls:
        yield "stream_tls", "is off: readers of streams cross the network in the clear"
    if config.cluster and not config.has_cluster_tls:
        yield "cluster_cert", "is not set: all that is mirrored crosses the network in the clear"
    if config.metrics_port > 0:
        yield "prometheus_port", f"{config.metrics_port} tells names of queues and users to whoever asks"


def _machine(config: Config) -> Iterator[tuple[str, str]]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < _DESCRIPTORS:
        yield "open files", f"are limited to {hard}, so that few clients take them all: raise the hard limit"
    for name, path in (("data_dir", config.data_dir), ("tls_key", config.tls_key), ("cluster_key", config.cluster_key)):
        if path and Path(path).exists() and Path(path).stat().st_mode & stat.S_IRWXO:
            yield name, f"{path} is open to every user of this machine: chmod o= {path}"
