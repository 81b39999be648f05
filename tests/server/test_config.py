"""Options: where they come from, which wins, and how a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.broker.settings import Settings
from warren.config import Config, document
from warren.config_loading import load
from warren.errors import WarrenError

ROOT = Path(__file__).parents[2]


def write(folder: Path, text: str) -> str:
    path = folder / "warren.toml"
    path.write_text(text)
    return str(path)


def refusal(path: str | None = None, environment: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(WarrenError) as caught:
        load(path, environment or {}, flags)
    return str(caught.value)


def test_without_anything_the_ports_are_those_of_rabbitmq() -> None:
    config = load(environment={})
    assert (config.amqp_port, config.http_port, config.tls_port) == (5672, 15672, 5671)
    assert not config.has_tls


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "amqp_port = 1\nhttp_port = 1\nheartbeat = 1\n")
    config = load(path, {"WARREN_AMQP_PORT": "2", "WARREN_HTTP_PORT": "2"}, {"amqp_port": 3})
    assert (config.amqp_port, config.http_port, config.heartbeat) == (3, 2, 1)


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load(None, {"WARREN_HOST": "::1"}, {"host": None}).host == "::1"


def test_a_table_of_the_file_is_a_prefix(tmp_path: Path) -> None:
    config = load(write(tmp_path, '[tls]\nport = 5999\ncert = "server.pem"\n'), {})
    assert (config.tls_port, config.tls_cert, config.has_tls) == (5999, "server.pem", True)


def test_lists_are_separated_by_commas_in_the_environment() -> None:
    assert load(None, {"WARREN_INTERCEPTORS": "a:B, c:D,"}).interceptors == ["a:B", "c:D"]


def test_an_empty_list_turns_off_what_is_on_by_default() -> None:
    assert load(None, {"WARREN_LOOPBACK_USERS": ""}).loopback_users == []


def test_a_whole_number_is_a_number() -> None:
    assert load(None, {}, {"memory_high_watermark": 1}).memory_high_watermark == 1.0


def test_variables_of_the_build_are_not_options() -> None:
    load(None, {"WARREN_PURE": "1", "WARREN_URL": "http://x"})


def test_an_unknown_key_is_named_with_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "amqp_prot = 5672\n")
    assert refusal(path).startswith(f"{path}: amqp_prot: there is no such option")


def test_an_unknown_key_of_a_table_is_named_as_it_was_written(tmp_path: Path) -> None:
    assert "tls.prot: there is no such option" in refusal(write(tmp_path, "[tls]\nprot = 1\n"))


def test_an_unknown_variable_is_named() -> None:
    assert refusal(None, {"WARREN_AMQP_PROT": "1"}).startswith("WARREN_AMQP_PROT: there is no such option")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WARREN_AMQP_PORT": "http"}, "WARREN_AMQP_PORT must be a whole number, not 'http'"),
        ({"WARREN_AMQP_PORT": "65536"}, "WARREN_AMQP_PORT must be at most 65535, not 65536"),
        ({"WARREN_FRAME_MAX": "100"}, "WARREN_FRAME_MAX must be at least 4096, not 100"),
        ({"WARREN_MEMORY_HIGH_WATERMARK": "much"}, "WARREN_MEMORY_HIGH_WATERMARK must be a number, not 'much'"),
        ({"WARREN_LOG_LEVEL": "loud"}, "WARREN_LOG_LEVEL must be one of debug, info, warning, error, not 'loud'"),
    ],
)
def test_a_wrong_value_is_told_with_its_name_and_the_reason(environment: dict[str, str], message: str) -> None:
    assert refusal(None, environment) == message


@pytest.mark.parametrize("text", ['amqp_port = "5672"', "amqp_port = true", "amqp_port = 1.5", "host = 1"])
def test_the_file_has_types(tmp_path: Path, text: str) -> None:
    assert f"{text.split()[0]} must be" in refusal(write(tmp_path, text))


def test_a_list_of_the_wrong_things_is_refused(tmp_path: Path) -> None:
    assert "must be a list of text, not [1]" in refusal(write(tmp_path, "interceptors = [1]"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "no.toml")).endswith("no.toml: No such file or directory")


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    assert "is not valid TOML" in refusal(write(tmp_path, "amqp_port = "))


def test_clients_cannot_be_verified_without_an_authority() -> None:
    assert "tls_verify = 'required' needs tls_ca" in refusal(tls_verify="required")


def test_a_key_without_a_certificate_is_a_mistake() -> None:
    assert "need tls_cert" in refusal(tls_key="key.pem")


def test_the_core_gets_what_was_configured() -> None:
    settings = load(None, {}, {"heartbeat": 7, "loopback_users": []}).settings()
    assert (settings.heartbeat, settings.loopback_users) == (7, [])


def test_defaults_of_the_core_and_of_the_configuration_agree() -> None:
    assert Config().settings() == Settings()


def test_the_documentation_lists_every_option_as_it_is() -> None:
    assert document() in (ROOT / "docs" / "configuration.md").read_text()
