"""`warren doctor --security`: each weak setting is named, and a sound configuration has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.serving import run_warren

from warren.config_loading import load
from warren.server.weaknesses import weaknesses


def named(tmp_path: Path, **options: object) -> set[str]:
    folder = tmp_path / "data"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    config = load(environment={}, flags={"data_dir": str(folder), **options})
    return {name for name, _ in weaknesses(config)}


def test_what_is_set_by_default_is_not_weak(tmp_path: Path) -> None:
    assert named(tmp_path) == set()


@pytest.mark.parametrize(
    ("options", "weak"),
    [
        ({"login_failures_max": 0}, {"login_failures_max"}),
        ({"memory_high_watermark": 0.0}, {"memory_high_watermark"}),
        ({"disk_free_limit": 0}, {"disk_free_limit"}),
        ({"max_message_size": 500_000_000}, {"max_message_size"}),
        ({"loopback_users": []}, {"default_password"}),
        ({"loopback_users": [], "default_password": "long and strange"}, set()),
        ({"loopback_users": [], "default_user": ""}, set()),
        ({"host": "0.0.0.0"}, {"tls_cert", "prometheus_port"}),
        ({"host": "0.0.0.0", "prometheus_port": -1, "tls_cert": "x"}, {"http_tls"}),
        ({"host": "0.0.0.0", "prometheus_port": -1, "tls_cert": "x", "http_tls": True}, set()),
        (
            {"host": "0.0.0.0", "prometheus_port": -1, "tls_cert": "x", "http_tls": True, "stream_port": 0},
            {"stream_tls"},
        ),
        ({"host": "::1"}, set()),
    ],
)
def test_a_weak_setting_is_named(tmp_path: Path, options: dict[str, object], weak: set[str]) -> None:
    assert named(tmp_path, **options) == weak


def test_a_folder_that_others_can_read_is_named(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir(mode=0o755)
    open_folder.chmod(0o755)
    assert named(tmp_path, data_dir=str(open_folder)) == {"data_dir"}


def test_the_command_tells_them_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "warren.toml").write_text("login_failures_max = 0\n")
    result = run_warren("doctor", "--security", "--config", "warren.toml", "--json", cwd=tmp_path)
    assert result.returncode == 1
    assert [finding["name"] for finding in json.loads(result.stdout)] == ["login_failures_max"]
    sound = run_warren("doctor", "--security", cwd=tmp_path)
    assert (sound.returncode, sound.stdout.strip()) == (0, "ok security no weak setting")
