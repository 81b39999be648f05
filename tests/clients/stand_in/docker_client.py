"""Takes the place of tests/docker_client.py in aio-pika's and aiormq's suites: no Docker, the broker that is there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


class DockerNotAvailableError(Exception):
    """Never raised: nothing needs Docker."""


@dataclass
class DockerHostInfo:
    container_host: str = "127.0.0.1"


@dataclass
class ContainerInfo:
    id: str = "warren"
    host: str = "127.0.0.1"
    ports: dict[str, int] = field(default_factory=lambda: {"5672/tcp": int(os.environ["BROKER_PORT"]), "5671/tcp": 1})


def check_docker_available() -> DockerHostInfo:
    return DockerHostInfo()


class DockerClient:
    def __init__(self, host: DockerHostInfo | None = None) -> None:
        self.host = host

    def run(self, image: str, ports: list[str], environment: dict[str, str] | None = None) -> ContainerInfo:
        return ContainerInfo()

    def kill(self, container: str) -> None:
        """The broker is not ours to stop."""

    def remove(self, container: str) -> None:
        """Nor to remove."""
