"""Every option of the server in one dataclass. config_loading.py fills it; docs/configuration.md is printed from it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, get_origin, get_type_hints

from warren.amqp.constants import BODY_HARD_MAX
from warren.broker.settings import MIB, Settings

# Where RabbitMQ has them.
MANAGEMENT_PORT: Final = 15672
PROMETHEUS_PORT: Final = 15692


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


OPTIONS: Final = {field.name: field for field in dataclasses.fields(Config)}
TYPES: Final = get_type_hints(Config)


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
        kind = " \\| ".join(f"`{choice}`" for choice in choices) if choices else type_name(TYPES[name])
        live = "yes" if field.metadata["live"] else ""
        lines.append(f"| `{name}` | {kind} | {text} | {live} | {field.metadata['help']} |")
    return "\n".join(lines) + "\n"


def type_name(kind: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return "a list of text" if get_origin(kind) is list else names[kind]
