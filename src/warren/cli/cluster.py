"""`warren cluster`: begin a cluster of mirrored nodes, look at it, move the lead. It talks to etcd, not to nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from warren.cli.output import json_option, show_rows
from warren.config import Config, flag_of, help_of
from warren.config_loading import load
from warren.errors import WarrenError
from warren.server.etcd import Etcd
from warren.server.folder import DataFolder
from warren.server.identity import FILE_NAME, Identity
from warren.server.membership import (
    LEADER,
    MEMBERS_KEY,
    SECRET,
    TRANSFER,
    initialise,
    nodes_of,
    transfer_value,
    view_of,
)
from warren.server.tls import etcd_context_of

_SECONDS: Final = 5.0
_TLS: Final = ("etcd_ca", "etcd_cert", "etcd_key")


def of_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """What every command needs to know: which cluster, and how to get to etcd. They get its configuration."""

    @wraps(command)
    def called(cluster: str, etcd: str, **others: Any) -> None:
        tls = {name: others.pop(name) for name in _TLS}
        # As `warren serve` reads and checks them.
        command(config=load(None, {}, {"cluster": cluster, "etcd": etcd, **tls}), **others)

    name = click.option("--cluster", envvar="WARREN_CLUSTER", required=True, metavar="NAME", help="The cluster's name.")
    etcd = click.option(
        "--etcd", envvar="WARREN_ETCD", required=True, metavar="URL[,URL]", help="Where etcd is: http://HOST:2379."
    )
    decorated = name(etcd(called))
    for each in _TLS:
        variable = f"WARREN_{each.upper()}"
        decorated = click.option(f"--{flag_of(each)}", envvar=variable, metavar="FILE", help=help_of(each))(decorated)
    return decorated


data_dir_option = click.option(
    "--data-dir", envvar="WARREN_DATA_DIR", default="warren-data", type=click.Path(path_type=Path), show_default=True
)


def _etcd(config: Config) -> Etcd:
    return Etcd(config.etcd, config.cluster, _SECONDS, etcd_context_of(config))


def _keys(config: Config) -> tuple[Etcd, dict[str, dict[str, Any]]]:
    etcd = _etcd(config)
    keys = etcd.read()
    if SECRET not in keys or MEMBERS_KEY not in keys:
        raise WarrenError(f"there is no cluster '{config.cluster}' in etcd: begin it with `warren cluster init`")
    return etcd, keys


def _say(as_json: bool, facts: dict[str, object], text: str) -> None:
    click.echo(json.dumps(facts) if as_json else text)


@click.group()
def cluster() -> None:
    """Mirrored nodes: one leads, the others keep a copy of all that is durable, and one of them takes over.

    See docs/replication.md for three nodes in ten minutes.
    """


@cluster.command()
@of_cluster
@data_dir_option
@json_option
def init(config: Config, data_dir: Path, as_json: bool) -> None:
    """Begin a cluster with the node whose data folder this is. What it has, all nodes will have; it need not run."""
    folder = DataFolder(str(data_dir))
    folder.open()
    try:
        identity = Identity(data_dir, config.cluster)
        initialise(_etcd(config), config.cluster, identity.uuid)
    finally:
        folder.close()
    facts: dict[str, object] = {"cluster": config.cluster, "node": identity.uuid}
    _say(as_json, facts, f"cluster {config.cluster} begins with node {identity.uuid}")


@cluster.command()
@of_cluster
@json_option
def status(config: Config, as_json: bool) -> None:
    """Who leads, who is in sync, and how far the others are behind."""
    _, keys = _keys(config)
    nodes = nodes_of(keys)
    if as_json:
        leader = keys.get(LEADER)
        epoch = 0 if leader is None else leader["create_revision"]
        click.echo(json.dumps({"cluster": config.cluster, "epoch": epoch, "nodes": nodes}, indent=2))
        return
    show_rows(nodes, ("uuid", "name", "role", "in_sync", "amqp", "version", "lag_ops", "lag_bytes"), as_json=False)
    if not any(node["role"] == "leader" for node in nodes):
        click.echo("nobody leads")


@cluster.command()
@of_cluster
@click.argument("node", required=False, default="")
@json_option
def transfer(config: Config, node: str, as_json: bool) -> None:
    """Let another node lead: NODE, or whichever of those in sync is first. Clients reconnect; nothing is lost."""
    client, keys = _keys(config)
    view = view_of(keys)
    if view.leader is None:
        raise WarrenError("nobody leads at the moment")
    if node and node not in view.members:
        raise WarrenError(f"{node} is not in sync: {', '.join(sorted(view.members))} are")
    if view.members == {view.leader.uuid}:
        raise WarrenError("only the leader is in sync: nobody could take over")
    client.put(TRANSFER, transfer_value(node, view.leader.uuid))
    _say(as_json, {"asked": node or "anybody"}, f"{view.leader.uuid} is asked to hand over to {node or 'another node'}")


@cluster.command()
@of_cluster
@click.argument("node")
@json_option
def forget(config: Config, node: str, as_json: bool) -> None:
    """Take a node that is gone for good off the list."""
    client, keys = _keys(config)
    view = view_of(keys)
    if f"members/{node}" in keys:
        raise WarrenError(f"{node} is running: stop it first")
    if node in view.members:
        raise WarrenError(
            f"{node} is in sync: the leader takes it out by itself; without a leader, see `warren cluster force-leader`"
        )
    client.delete(f"members/{node}")
    _say(as_json, {"forgotten": node}, f"{node} is not known any more")


@cluster.command("force-leader")
@of_cluster
@data_dir_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def force_leader(config: Config, data_dir: Path, yes: bool, as_json: bool) -> None:
    """Let the node of this data folder lead although it is not in sync, because all that were are lost for good.

    What was confirmed since it fell behind is lost with them.
    """
    client, keys = _keys(config)
    view = view_of(keys)
    if view.leader is not None:
        raise WarrenError(f"{view.leader.uuid} leads: there is nothing to force")
    if not (data_dir / FILE_NAME).exists():
        raise WarrenError(f"{data_dir} is not the data folder of a node")
    uuid = Identity(data_dir, config.cluster).uuid
    if not yes:
        click.confirm(
            f"In sync are {', '.join(sorted(view.members))}. What was confirmed and is not in {data_dir} is lost for "
            "good. Go on?",
            abort=True,
        )
    value = {"epoch": 0, "members": [uuid]}
    if not client.put_if([(LEADER, "CREATE", 0), (MEMBERS_KEY, "MOD", view.revision)], MEMBERS_KEY, value):
        raise WarrenError("the cluster has changed meanwhile: look at `warren cluster status`")
    _say(as_json, {"node": uuid}, f"{uuid} leads when it is started")
