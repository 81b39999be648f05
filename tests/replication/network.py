"""Machines on a network of their own, whose wires can be cut, each way by itself. Linux namespaces, also without root.

enter()          runs this program again where it may do that; says why not where it cannot
Network(names)   a machine for each; this process is on the network too
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

from tests.replication.real_nodes import Machine

_INSIDE: Final = "TEST_NETWORK"
_PREPARE: Final = "mount -t tmpfs tmpfs /run && ip link set lo up"


def obstacle() -> str:
    """Why there can be no such network here; empty where it can."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return "there is no unshare or no ip here (Debian: util-linux, iproute2)"
    done = subprocess.run([*_command(), "-c", f"{_PREPARE} && ip netns add x"], capture_output=True, check=False)
    return "" if done.returncode == 0 else f"no namespaces here: {done.stderr.decode().strip()}"


def _command() -> list[str]:
    rootless = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--net", "--mount", *rootless, "sh"]


def command(module: str, *arguments: str) -> list[str]:
    """Runs the module where it may make a Network."""
    return [*_command(), "-c", f'{_PREPARE} && {_INSIDE}=1 exec "$@"', "sh", sys.executable, "-m", module, *arguments]


def is_inside() -> bool:
    return _INSIDE in os.environ


class Network:
    def __init__(self, names: list[str]) -> None:
        _ip("link", "add", "wires", "type", "bridge")
        _ip("address", "add", "10.99.0.254/24", "dev", "wires")
        _ip("link", "set", "wires", "up")
        self.machines: dict[str, Machine] = {}
        for number, name in enumerate(names, 1):
            host = f"10.99.0.{number}"
            _ip("netns", "add", name)
            _ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"to-{name}", "master", "wires", "up")
            _ip("-n", name, "address", "add", f"{host}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
            self.machines[name] = Machine(host, ("ip", "netns", "exec", name))
        self._cuts: set[tuple[str, str]] = set()

    def cut_way(self, source: str, target: str) -> None:
        """What one sends to the other is lost; what comes the other way is not."""
        if (source, target) not in self._cuts:
            self._cuts.add((source, target))
            _ip("-n", source, "route", "add", "blackhole", f"{self.machines[target].host}/32")

    def cut(self, some: list[str], others: list[str]) -> None:
        for one in some:
            for other in others:
                self.cut_way(one, other)
                self.cut_way(other, one)

    def heal(self) -> None:
        for source, target in self._cuts:
            _ip("-n", source, "route", "del", "blackhole", f"{self.machines[target].host}/32")
        self._cuts.clear()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
