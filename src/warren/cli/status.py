"""`warren status`: how the broker is, with its alarms; exit code 1 while any is on."""

from __future__ import annotations

from typing import Any

import click

from warren.cli.options import url_option
from warren.cli.output import json_option, show_item
from warren.client.api import Api
from warren.errors import WarrenError


@click.command()
@json_option
@url_option
def status(as_json: bool, url: str) -> None:
    """Show how the broker is. Exits with 1 while an alarm is on and publishers are blocked."""
    api = Api(url)
    overview, (node, *_) = api.get("overview"), api.get("nodes")
    alarms = [name for name, key in _ALARMS.items() if node.get(key)]
    shown: dict[str, Any] = {
        "name": overview["node"],
        "product": f"{overview.get('product_name', 'RabbitMQ')} {overview.get('product_version', '')}".strip(),
        # Of Warren's own; `warren status` also looks at a RabbitMQ.
        **({"core": overview["core"]} if "core" in overview else {}),
        "uptime": f"{node['uptime'] // 1000} s",
        "alarms": alarms,
        "memory": f"{node['mem_used'] >> 20} of {node['mem_limit'] >> 20} MiB",
        "disk free": f"{node['disk_free'] >> 20} MiB, at least {node['disk_free_limit'] >> 20}",
        "file descriptors": f"{node['fd_used']} of {node['fd_total']}",
        **overview["object_totals"],
        "messages": overview["queue_totals"].get("messages", 0),
    }
    show_item(shown, as_json)
    if alarms:
        raise WarrenError(f"{' and '.join(alarms)} alarm: publishers are blocked")


_ALARMS = {"memory": "mem_alarm", "disk": "disk_free_alarm", "file descriptors": "fd_alarm"}
