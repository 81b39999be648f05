"""What is shipped for running Warren elsewhere is well-formed, and names only what there is.

Tools judge where they are installed: systemd-analyze, promtool (Debian's package prometheus), podman.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serving import PATIENCE, Serving
from warren import Broker
from warren.config import OPTIONS

PACKAGING = Path(__file__).parents[2] / "packaging"
METRIC = re.compile(r"\b(?:rabbitmq|warren)_\w+")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: it comes with the extra spark")


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((PACKAGING / name).read_text()))


@pytest.fixture(scope="module")
def metrics() -> set[str]:
    with Broker(http=True) as broker, urllib.request.urlopen(f"{broker.http_url}/metrics") as answer:
        return set(METRIC.findall(answer.read().decode()))


def dashboard() -> Any:
    return json.loads((PACKAGING / "grafana" / "warren-overview.json").read_text())


def queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for group in documents("prometheus-alerts.yaml")[0]["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def test_every_metric_of_dashboards_and_alerts_is_told_by_the_broker(metrics: set[str]) -> None:
    assert [name for query in queries() for name in METRIC.findall(query) if name not in metrics] == []


def test_panels_have_a_place_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        spots = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not spots & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= spots


def test_promtool_takes_the_alerts() -> None:
    checked = subprocess.run(
        [tool("promtool"), "check", "rules", str(PACKAGING / "prometheus-alerts.yaml")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "10 rules found" in checked.stdout


def test_promtool_takes_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    asked = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in queries()]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(asked)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run([tool("promtool"), "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True)
    assert checked.returncode == 0, checked.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "warren.service"
    # What it starts need not be there, for what is asked here.
    unit.write_text((PACKAGING / "warren.service").read_text().replace("/opt/warren/bin/warren", "/bin/true"))
    checked = subprocess.run([tool("systemd-analyze"), "verify", "--man=no", str(unit)], capture_output=True, text=True)
    said = [line for line in checked.stderr.splitlines() if "warren.service" in line]
    assert (checked.returncode, said) == (0, [])


def test_systemd_hears_when_it_is_ready_reloads_and_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing:
        hearing.bind(str(tmp_path / "notify"))
        hearing.settimeout(PATIENCE)
        with Serving(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")) as serving:
            assert hearing.recv(100) == b"READY=1"
            serving.process.send_signal(1)
            assert hearing.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert hearing.recv(100) == b"READY=1"
            assert serving.stop() == 0
            assert hearing.recv(100) == b"STOPPING=1"


def test_the_manifests_hang_together() -> None:
    by_kind = {each["kind"]: each for each in documents("kubernetes.yaml")}
    assert list(by_kind) == ["Secret", "Service", "StatefulSet"]
    spec = by_kind["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    assert (
        spec["selector"]["matchLabels"]
        == spec["template"]["metadata"]["labels"]
        == by_kind["Service"]["spec"]["selector"]
    )
    assert spec["serviceName"] == by_kind["Service"]["metadata"]["name"]
    named = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in by_kind["Service"]["spec"]["ports"]} == named
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        (how,) = (value for key, value in container[probe].items() if key in ("tcpSocket", "httpGet"))
        assert how["port"] in named
    volumes = {each["name"] for each in pod["volumes"]} | {
        each["metadata"]["name"] for each in spec["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert pod["securityContext"]["runAsNonRoot"] is True
    (secret,) = (each["secretRef"]["name"] for each in container["envFrom"])
    assert secret == by_kind["Secret"]["metadata"]["name"]


@pytest.mark.parametrize("name", ["Containerfile", "kubernetes.yaml"])
def test_variables_are_options(name: str) -> None:
    variables = re.findall(r"\bWARREN_(\w+)", (PACKAGING / name).read_text())
    assert variables
    assert [variable for variable in variables if variable.lower() not in OPTIONS] == []


def test_the_image_runs_as_nobody_in_particular_and_says_how_it_is() -> None:
    words = [line.split()[0] for line in (PACKAGING / "Containerfile").read_text().splitlines() if line[:1].isupper()]
    assert {"USER", "HEALTHCHECK", "STOPSIGNAL", "VOLUME", "ENTRYPOINT"} <= set(words)
    assert words.index("USER") < words.index("ENTRYPOINT")
