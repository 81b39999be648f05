"""Runs the clients' own test suites, as their authors publish them, against a fresh Warren each.

    python -m tests.clients.suites [--cluster] [NAME ...]

A suite is the source distribution of one version of a client, with an environment of its own below build/clients/.
What RabbitMQ 3.10.8 reaches in the same tests is noted next to each; its failures are tests that fail everywhere.
With --cluster the broker is three nodes, of which clients know one that follows (needs etcd).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import rich
from rich.markup import escape
from rich.table import Table

from tests.replication.real_nodes import Cluster
from warren import Broker

FOLDER = Path(__file__).parents[2] / "build" / "clients"
STAND_IN = Path(__file__).with_name("stand_in")
SECONDS_PER_TEST = 60
CLUSTER_FLAG = "--cluster"
# Of a message, as in RabbitMQ 3.10.8: aio-pika publishes one of 22 MB. RabbitMQ 4 takes 16 MiB, and so do we otherwise.
MESSAGE_BYTES = 128 * 1024 * 1024


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.passed} / {self.failed} / {self.skipped}"


class Unavailable(Exception):
    """The suite could not be had, which says nothing about the broker."""


def nothing(_: Path) -> None:
    """Most suites run as they are."""


@dataclass
class Suite:
    """`environment` is formatted with host, port, url, http and source."""

    name: str
    package: str
    version: str
    tests: list[str]
    environment: dict[str, str]
    rabbitmq: Counts
    needs: list[str] = field(default_factory=list)
    seconds: int = 600
    prepare: Callable[[Path], None] = nothing


def replace_docker(source: Path) -> None:
    shutil.copy(STAND_IN / "docker_client.py", source / "tests" / "docker_client.py")


def replace_docker_and_conftest(source: Path) -> None:
    replace_docker(source)
    shutil.copy(STAND_IN / "conftest_of_aiormq.py", source / "conftest.py")


AIO_NEEDS = ["aiomisc", "aiomisc-pytest", "pytest-rst", "shortuuid", "timeout-decorator"]
SUITES = [
    Suite(
        "py-amqp",
        "amqp",
        "5.4.2",
        ["t/integration/test_rmq.py"],
        # Those with TLS expect certificates of a Docker image, two others a site on the internet.
        {"RABBITMQ_HOST": "{host}", "RABBITMQ_5672_TCP": "{port}", "DROP": "tls"},
        Counts(12, 0, 0),
        ["pytest-rerunfailures"],
        60,
    ),
    Suite(
        "kombu",
        "kombu",
        "5.7.0",
        ["t/integration/test_py_amqp.py"],
        {"RABBITMQ_HOST": "{host}", "RABBITMQ_5672_TCP": "{port}"},
        Counts(51, 0, 0),
        ["pytest-rerunfailures"],
        200,
    ),
    Suite(
        "rabbitpy",
        "rabbitpy",
        "3.0.2",
        ["tests/test_integration.py", "tests/integration"],
        {"RABBITMQ_URL": "{url}", "MANAGEMENT_URL": "{http}/%2f"},
        Counts(40, 0, 0),
        ["python-dotenv"],
        100,
    ),
    Suite(
        "aio-pika",
        "aio-pika",
        "10.2.1",
        ["tests"],
        {"BROKER_PORT": "{port}", "KEEP_FIXTURE": "rabbitmq_container", "DROP": "test_amqps.py"},
        Counts(788, 2, 24),
        AIO_NEEDS,
        1200,
        replace_docker,
    ),
    Suite(
        "aiormq",
        "aiormq",
        "7.2.4",
        ["tests"],
        {
            "BROKER_PORT": "{port}",
            "KEEP_FIXTURE": "rabbitmq_container",
            "DROP": "amqps test_auth_external test_ssl_",
            "PYTHONPATH": "{source}",
        },
        Counts(481, 2, 1),
        AIO_NEEDS,
        900,
        replace_docker_and_conftest,
    ),
    Suite(
        "celery",
        "celery",
        "5.7.0",
        ["t/integration/test_tasks.py", "t/integration/test_inspect.py"],
        {"TEST_BROKER": "{url}", "TEST_BACKEND": "rpc://", "PYTHONPATH": "{source}"},
        Counts(60, 3, 13),
        [
            "cryptography",
            "psutil",
            "pydantic",
            "pytest-celery",
            "pytest-order",
            "pytest-rerunfailures",
            "pytest-subtests",
            "redis",
        ],
        1200,
    ),
]


class Place(NamedTuple):
    """Where a suite finds its broker."""

    host: str
    port: int
    url: str
    http: str


@contextmanager
def single_node() -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory() as data,
        Broker(http=True, data_dir=data, max_message_size=MESSAGE_BYTES) as broker,
    ):
        yield Place(broker.host, broker.port, broker.url, broker.http_url)


@contextmanager
def follower() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster.new(Path(folder), 3, "--max-message-size", str(MESSAGE_BYTES))
        try:
            cluster.wait_in_sync(3)
            node = cluster.followers()[0]
            host = node.machine.host
            yield Place(host, node.amqp_port, f"amqp://guest:guest@{node.address}/%2F", node.http_url)
        finally:
            cluster.stop()


def run(suite: Suite, new_broker: Callable[[], AbstractContextManager[Place]] = single_node) -> Counts:
    """On a broker that nobody has used before."""
    python, source = install(suite), unpack(suite)
    suite.prepare(source)
    with new_broker() as place:
        return measure(suite, place, python, source)


def measure(suite: Suite, place: Place, python: Path, source: Path) -> Counts:
    report = FOLDER / f"{suite.name}.xml"
    report.unlink(missing_ok=True)
    places = {**place._asdict(), "source": source}
    environment = {name: value.format(**places) for name, value in suite.environment.items()}
    paths = [str(STAND_IN), *environment.pop("PYTHONPATH", "").split()]
    command = [
        *(str(python), "-m", "pytest", "-q", "-p", "broker_tests_only", "-p", "no:cacheprovider"),
        *("--timeout", str(SECONDS_PER_TEST), "--junitxml", str(report), *suite.tests),
    ]
    said = report.with_suffix(".log")
    try:
        with said.open("w") as log:
            subprocess.run(
                command,
                cwd=source,
                env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=suite.seconds,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"not done after {suite.seconds} s: see {said}") from error
    return count(report)


def count(report: Path) -> Counts:
    """A test that was run again counts once; when it failed in any of its runs, as failed."""
    if not report.exists():
        raise Unavailable(f"the suite did not run: see {report.with_suffix('.log')}")
    failed: dict[str, bool] = {}
    counts = Counts()
    for case in Xml.parse(report).iter("testcase"):
        outcome = {part.tag for part in case}
        name = f"{case.get('classname')}::{case.get('name')}"
        if "skipped" in outcome:
            counts.skipped += 1
        else:
            failed[name] = failed.get(name, False) or not outcome.isdisjoint({"failure", "error"})
    counts.failures = [name for name, is_failed in failed.items() if is_failed]
    counts.failed = len(counts.failures)
    counts.passed = len(failed) - counts.failed
    return counts


def install(suite: Suite) -> Path:
    """The Python of an environment with the client and what its tests need."""
    place = FOLDER / f"venv-{suite.name}"
    wanted = [f"{suite.package}=={suite.version}", "pytest", "pytest-timeout", *suite.needs]
    note = place / "installed"
    if not note.exists() or note.read_text() != "\n".join(wanted):
        shutil.rmtree(place, ignore_errors=True)
        call(sys.executable, "-m", "venv", "--without-pip", str(place))
        pip("--python", str(place / "bin" / "python"), "install", *wanted)
        note.write_text("\n".join(wanted))
    return place / "bin" / "python"


def unpack(suite: Suite) -> Path:
    """A fresh copy of the published source."""
    place = FOLDER / "sources"
    place.mkdir(parents=True, exist_ok=True)
    stem = f"{suite.package.replace('-', '_')}-{suite.version}"
    archive = place / f"{stem}.tar.gz"
    if not archive.exists():
        wanted = f"{suite.package}=={suite.version}"
        pip("download", "--no-deps", "--no-binary", suite.package, "--dest", str(place), wanted)
    shutil.rmtree(place / stem, ignore_errors=True)
    with tarfile.open(archive) as opened:
        # The first releases of 3.11, Debian's among them, have no filters.
        if hasattr(tarfile, "data_filter"):
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(place)
    return place / stem


def pip(*arguments: str) -> None:
    call(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command[:5])} ...: {done.stderr.strip().splitlines()[-1:]}")


def main(arguments: list[str]) -> int:
    names = [name for name in arguments if name != CLUSTER_FLAG]
    new_broker = follower if CLUSTER_FLAG in arguments else single_node
    table = Table("suite", "Warren: pass / fail / skip", "RabbitMQ 3.10.8", title="Clients' own suites")
    worse = 0
    for suite in SUITES:
        if names and suite.name not in names:
            continue
        try:
            counts = run(suite, new_broker)
        except Unavailable as reason:
            counts = Counts(failures=[str(reason)])
        rich.print(f"{suite.name}: {counts}", *(f"\n  failed: {escape(name)}" for name in counts.failures))
        table.add_row(suite.name, str(counts), str(suite.rabbitmq))
        worse += counts.passed < suite.rabbitmq.passed
    rich.print(table)
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
