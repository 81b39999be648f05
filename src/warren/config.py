"""Every option of the server in one dataclass, filled from warren.toml, WARREN_* and flags (later wins).

A table in the file is a prefix: `[tls] port = 5671`, `tls_port = 5671`, WARREN_TLS_PORT=5671 and
--tls-port 5671 say the same. docs/configuration.md is printed from this file.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from warren.amqp.constants import BODY_HARD_MAX
from warren.broker.settings import MIB, Settings
from warren.errors import WarrenError

ENVIRONMENT_PREFIX: Final = "WARREN_"
# Begin like options but are read elsewhere: by the build and by the command line's client side.
_NOT_OPTIONS: Final = {"WARREN_PURE", "WARREN_EXPECT", "WARREN_CONFIG", "WARREN_URL", "WARREN_AMQP_URL", "WARREN_URI"}
# Where RabbitMQ has them.
MANAGEMENT_PORT: Final = 15672
PROMETHEUS_PORT: Final = 15692
_TRUTHS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def option(
    help: str,
    default: object,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = False,
) -> Any:
    """A dataclass field with what its checks and its documentation need to know. `live`: it can change on SIGHUP."""
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "live": live}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass
class Config:
    host: str = option("Address to listen on; `0.0.0.0` or `::` for all.", "127.0.0.1")
    amqp_port: int = option("Port of AMQP 0-9-1; 0 takes any free one.", 5672, low=0, high=65535)
    http_port: int = option(
        "Port of the management API, the metrics and the web page; 0 takes any free one, -1 turns them off.",
        MANAGEMENT_PORT,
        low=-1,
        high=65535,
    )
    http_tls: bool = option("Whether that port speaks HTTPS, with `tls_cert`.", False)
    prometheus_port: int = option(
        "Port on which Prometheus reads all metrics without a login, as from RabbitMQ; "
        "0 is RabbitMQ's 15692 where `http_port` is its 15672 and none elsewhere, -1 is none.",
        0,
        low=-1,
        high=65535,
    )
    data_dir: str = option("Folder of everything that survives a restart; empty keeps nothing.", "warren-data")
    archive_dir: str = option("Folder of the archives of streams; empty is `archive` in the data folder.", "")
    definitions: str = option("Definitions file (RabbitMQ's format) to import at every start.", "")

    tls_port: int = option("Port of AMQP over TLS, open when `tls_cert` is set; 0 takes any.", 5671, low=0, high=65535)
    tls_cert: str = option("The server's certificate chain, a PEM file.", "", live=True)
    tls_key: str = option("The certificate's private key, a PEM file; empty when `tls_cert` holds both.", "", live=True)
    tls_ca: str = option("Authorities that may sign clients' certificates, a PEM file.", "", live=True)
    tls_verify: str = option(
        "Whether clients must show a certificate. `optional` and `required` offer EXTERNAL: the name is the CN.",
        "none",
        choices=("none", "optional", "required"),
    )

    heartbeat: int = option(
        "Heartbeat proposed to clients, in seconds; 0 proposes none.", 60, low=0, high=65535, live=True
    )
    frame_max: int = option("Largest frame, in bytes.", 131072, low=4096, high=2**31 - 1)
    channel_max: int = option("Most channels of one connection.", 2047, low=1, high=65535)
    connection_max: int = option(
        "Most open AMQP connections; 0 is four fifths of the descriptors that are not reserved.", 0, low=0
    )
    http_connection_max: int = option("Most HTTP connections.", 1000, low=1)
    http_body_max: int = option("Largest body of an HTTP request, in bytes.", 10_000_000, low=1024)
    http_bodies_max: int = option(
        "Bytes of all bodies of HTTP requests that are being read; one more is told to come later.",
        100_000_000,
        low=1024,
    )
    strangers_max: int = option(
        "Most connections of a protocol that have not logged in, at most a quarter of the descriptors; "
        "for one more, the one that has waited longest is dropped.",
        10_000,
        low=1,
    )
    strangers_per_address_max: int = option("The same from one address, at most an eighth.", 5000, low=1)
    descriptors_reserved: int = option(
        "File descriptors that no connection gets, so that the store can open files; "
        "0 is a quarter of the open-file limit, 1024 at most.",
        0,
        low=0,
    )
    handshake_timeout_ms: int = option("Time for a whole handshake, in milliseconds.", 10_000, low=1, live=True)
    max_message_size: int = option("Largest message body, in bytes.", 16 * MIB, low=0, high=BODY_HARD_MAX, live=True)
    delivery_limit: int = option(
        "How often a message may come back to a quorum queue that says nothing of it; -1 is any number.", 20, low=-1
    )
    unread_max: int = option(
        "Bytes of answers that one connection may leave unread; above it the connection is not read.", 8 * MIB, low=4096
    )
    unread_timeout_ms: int = option(
        "Time a connection may leave that much unread before it is closed, in milliseconds.", 60_000, low=1
    )
    unfinished_max: int = option(
        "Bytes of bodies whose rest is still to come and of transactions, on all connections; above it the connection "
        "with the most of them is closed. 0 is an eighth of the memory at which publishers are blocked, "
        "and not less than two messages of `max_message_size`.",
        0,
        low=0,
    )
    unsynced_max: int = option(
        "Bytes that may wait for the disk before publishers are slowed down; at twice as many they are stopped.",
        64 * MIB,
        low=4096,
    )
    consumer_timeout_ms: int = option("Time a consumer may hold a delivery unacknowledged; 0 is for ever.", 0, low=0)

    default_user: str = option("User made when there is none yet; empty makes none.", "guest")
    default_password: str = option("That user's password.", "guest")
    default_vhost: str = option("Virtual host made when there is none yet.", "/")
    login_failures_max: int = option(
        "Wrong passwords for one user from one address in a minute, over AMQP and HTTP together, and four times as "
        "many for all users from there; more are not tried. Who has logged in before is let in. 0 is any number.",
        60,
        low=0,
    )
    loopback_users: list[str] = option("Users that may connect from this machine only.", ["guest"], live=True)

    interceptors: list[str] = option("Channel interceptors, as `package.module:Class`.", [])
    exchange_decorators: list[str] = option("Exchange decorators, as `package.module:Class`.", [])
    tracer: str = option(
        "Where spans go, as `package.module:Class`: `warren.extensions.otel:OpenTelemetryTracer`; empty makes none.", ""
    )
    queue_decorators: list[str] = option("Queue decorators, as `package.module:Class`.", [])

    memory_high_watermark: float = option(
        "Share of the memory (of the cgroup's limit, where there is one) above which publishers are blocked; 0 is off.",
        0.6,
        low=0,
        high=1,
        live=True,
    )
    disk_free_limit: int = option(
        "Free bytes on the data folder's disk below which publishers block, at least three segments' worth; 0 is off.",
        50_000_000,
        low=0,
        live=True,
    )

    store_segment_bytes: int = option(
        "Size at which a file of the message log is full and the next begins.", 32 * MIB, low=4096, high=2**30
    )

    cluster: str = option(
        "Name of the cluster of mirrored nodes that this one belongs to (`name` in `[cluster]`); empty is none.",
        "",
    )
    etcd: list[str] = option("Addresses of the etcd that a cluster elects its leader by.", [])
    etcd_ca: str = option(
        "Authorities that sign the certificate of an etcd at `https://`, a PEM file; empty trusts the system's.",
        "",
        live=True,
    )
    etcd_cert: str = option("The certificate that etcd is shown, a PEM file; empty shows none.", "", live=True)
    etcd_key: str = option("Its private key, a PEM file; empty when `etcd_cert` holds both.", "", live=True)
    cluster_ca: str = option(
        "Authority that signs the certificates of the cluster's nodes (`ca` in `[cluster]`), a PEM file; with it nodes "
        "speak TLS and both show theirs.",
        "",
        live=True,
    )
    cluster_cert: str = option(
        "This node's certificate for other nodes (`cert` in `[cluster]`), for the host in `advertise`, a PEM file.",
        "",
        live=True,
    )
    cluster_key: str = option(
        "Its private key (`key` in `[cluster]`), a PEM file; empty when `cluster_cert` holds both.", "", live=True
    )
    replication_port: int = option("Port on which nodes of a cluster copy from each other.", 25672, low=0, high=65535)
    stream_port: int = option(
        "Port on which a follower serves readers of streams from its own files; -1 none.", -1, low=-1, high=65535
    )
    stream_tls: bool = option("Whether that port speaks TLS, with `tls_cert`.", False)
    advertise: str = option("Host by which other nodes and clients reach this one; empty is `host`.", "")
    min_in_sync: int = option("Nodes that must have a message, this one counted, or publishers are blocked.", 1, low=1)
    lease_seconds: int = option(
        "How long a cluster's leader that is gone is waited for before another is elected.", 10, low=2, high=600
    )

    node_name: str = option("Name of this node in the API and on the wire.", "warren@localhost")
    cluster_name: str = option("Name of the cluster in the API and on the wire.", "warren@localhost")
    log_level: str = option("How much is logged.", "info", choices=("debug", "info", "warning", "error"), live=True)
    log_format: str = option(
        "Lines for people, or an object of JSON on each.", "lines", choices=("lines", "json"), live=True
    )
    log_file: str = option("File that is logged to; empty is standard error.", "", live=True)
    log_file_bytes: int = option("Size at which that file is put aside as `.1`; 0 is never.", 0, low=0, live=True)
    log_file_count: int = option("How many are kept aside.", 5, low=1, live=True)

    def settings(self) -> Settings:
        """What of this the core needs."""
        names = {field.name for field in dataclasses.fields(Settings)} & set(OPTIONS)
        return Settings(**{name: getattr(self, name) for name in names})

    @property
    def disk_limit(self) -> int:
        """Below this publishers block: room for a segment that fills, one that is rewritten, and one to spare."""
        return max(self.disk_free_limit, 3 * self.store_segment_bytes) if self.disk_free_limit > 0 else 0

    @property
    def metrics_port(self) -> int:
        """-1 when there is none."""
        if self.prometheus_port == 0:
            return PROMETHEUS_PORT if self.http_port == MANAGEMENT_PORT else -1
        return self.prometheus_port if self.http_port >= 0 else -1

    @property
    def has_tls(self) -> bool:
        return bool(self.tls_cert)

    @property
    def has_cluster_tls(self) -> bool:
        return bool(self.cluster_cert)

    @property
    def has_etcd_tls(self) -> bool:
        return any(address.startswith("https://") for address in self.etcd)


# What stands in a table [cluster] goes by shorter names elsewhere.
_IN_CLUSTER: Final = {"name": "cluster"} | {
    name: name
    for name in (
        "etcd", "etcd_ca", "etcd_cert", "etcd_key", "replication_port", "stream_port", "stream_tls", "advertise",
        "min_in_sync", "lease_seconds",
    )
}  # fmt: skip
OPTIONS: Final = {field.name: field for field in dataclasses.fields(Config)}
_TYPES: Final = get_type_hints(Config)


def load(
    path: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    spelling: Callable[[str], str] | None = None,
) -> Config:
    """The configuration of one start. Flags that are None were not given; their texts are read like variables.

    `spelling` is how whoever gave an option calls it, for what is said about it: as a flag unless they say otherwise.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, object] = {}
    if path is not None:
        values.update(_from_file(path))
    values.update(_from_environment(environment))
    for name, value in (flags or {}).items():
        if value is not None:
            where = f"--{flag_of(name)}" if spelling is None else spelling(name)
            values[name] = _checked(where, name, _parse(where, name, value) if isinstance(value, str) else value)
    config = Config(**values)  # type: ignore[arg-type]
    _check_together(config)
    return config


def take_over(config: Config, wanted: Config) -> list[str]:
    """What can change while a broker runs; the names of options that are different and need a restart."""
    changed = [name for name in OPTIONS if getattr(config, name) != getattr(wanted, name)]
    # TLS can be renewed, but neither begin nor end.
    others = {"tls_": config.has_tls != wanted.has_tls, "cluster_": config.has_cluster_tls != wanted.has_cluster_tls}
    fixed = [
        name
        for name in changed
        if not OPTIONS[name].metadata["live"]
        or any(is_other and name.startswith(prefix) for prefix, is_other in others.items())
    ]
    for name in changed:
        if name not in fixed:
            setattr(config, name, getattr(wanted, name))
    return fixed


def flag_of(name: str) -> str:
    return name.replace("_", "-")


def help_of(name: str) -> str:
    """For the command line: what it means, and its default."""
    shown = getattr(Config(), name)
    default = ", ".join(shown) if isinstance(shown, list) else str(shown)
    text = str(OPTIONS[name].metadata["help"]).replace("`", "")
    return f"{text}  [default: {default}]" if default else text


def document() -> str:
    """The table of docs/configuration.md."""
    lines = ["| option | type | default | on SIGHUP | meaning |", "|---|---|---|---|---|"]
    defaults = Config()
    for name, field in OPTIONS.items():
        text = f"`{getattr(defaults, name)!r}`"
        choices = field.metadata["choices"]
        kind = " \\| ".join(f"`{choice}`" for choice in choices) if choices else _type_name(_TYPES[name])
        live = "yes" if field.metadata["live"] else ""
        lines.append(f"| `{name}` | {kind} | {text} | {live} | {field.metadata['help']} |")
    return "\n".join(lines) + "\n"


def _from_file(path: str) -> dict[str, object]:
    try:
        tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise WarrenError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WarrenError(f"{path} is not valid TOML: {error}") from error
    values: dict[str, object] = {}
    for key, value in tree.items():
        if not isinstance(value, dict):
            values[key] = _checked(f"{path}: {key}", key, value)
            continue
        for inner, leaf in value.items():
            name = _IN_CLUSTER.get(inner, f"{key}_{inner}") if key == "cluster" else f"{key}_{inner}"
            values[name] = _checked(f"{path}: {key}.{inner}", name, leaf)
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, text in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in _NOT_OPTIONS:
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            values[name] = _checked(variable, name, _parse(variable, name, text))
    return values


def _parse(where: str, name: str, text: str) -> object:
    """What a text of the environment means for this option; anything unfit is left for `_checked` to name."""
    kind = _TYPES.get(name)
    try:
        if kind is bool:
            return _TRUTHS[text.lower()]
        if kind in (int, float):
            return kind(text)
    except (KeyError, ValueError):
        raise WarrenError(f"{where} must be {_type_name(kind)}, not {text!r}") from None
    if get_origin(kind) is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _checked(where: str, name: str, value: object) -> object:
    field = OPTIONS.get(name)
    if field is None:
        near = get_close_matches(name, OPTIONS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise WarrenError(f"{where}: there is no such option (see docs/configuration.md){meant}")
    kind = _TYPES[name]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not _is_of(value, kind):
        raise WarrenError(f"{where} must be {_type_name(kind)}, not {value!r}")
    low, high, choices = field.metadata["low"], field.metadata["high"], field.metadata["choices"]
    if isinstance(value, (int, float)):
        if low is not None and value < low:
            raise WarrenError(f"{where} must be at least {low}, not {value}")
        if high is not None and value > high:
            raise WarrenError(f"{where} must be at most {high}, not {value}")
    if choices and value not in choices:
        raise WarrenError(f"{where} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _is_of(value: object, kind: Any) -> bool:
    if get_origin(kind) is list:
        return isinstance(value, list) and all(isinstance(item, get_args(kind)[0]) for item in value)
    # bool is an int to Python, but `amqp_port = true` is a mistake.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _type_name(kind: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return "a list of text" if get_origin(kind) is list else names[kind]


def _check_together(config: Config) -> None:
    if config.tls_verify != "none" and not config.tls_ca:
        raise WarrenError(
            f"tls_verify = {config.tls_verify!r} needs tls_ca: the authorities that sign clients' certificates"
        )
    if config.prometheus_port > 0 and config.http_port < 0:
        raise WarrenError("prometheus_port needs http_port: with -1 nothing speaks HTTP")
    if config.cluster and not config.etcd:
        raise WarrenError("cluster needs etcd: the address of the etcd by which nodes elect their leader")
    if config.cluster and not config.data_dir:
        raise WarrenError("cluster needs data_dir: mirrors are copies of what is on disk")
    if config.has_cluster_tls and not config.cluster_ca:
        raise WarrenError("cluster_cert needs cluster_ca: the authority that signs the certificates of the nodes")
    if not config.has_cluster_tls and (config.cluster_ca or config.cluster_key):
        raise WarrenError(
            "cluster_ca and cluster_key need cluster_cert: the certificate that this node shows to others"
        )
    if config.etcd_key and not config.etcd_cert:
        raise WarrenError("etcd_key needs etcd_cert: the certificate that etcd is shown")
    if (config.etcd_ca or config.etcd_cert) and not config.has_etcd_tls:
        raise WarrenError("etcd_ca and etcd_cert need an address in etcd that begins with https://")
    for name in ("http_tls", "stream_tls"):
        if getattr(config, name) and not config.has_tls:
            raise WarrenError(f"{name} needs tls_cert: without a certificate there is no TLS")
    if not config.has_tls and (config.tls_key or config.tls_ca):
        raise WarrenError("tls_key and tls_ca need tls_cert: without a certificate there is no TLS")
