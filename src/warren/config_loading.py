"""Where the values of the server's options come from: warren.toml, WARREN_* and flags, of which the later wins.

A table in the file is a prefix: `[tls] port = 5671`, `tls_port = 5671`, WARREN_TLS_PORT=5671 and
--tls-port 5671 say the same.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from warren.config import OPTIONS, TYPES, Config, flag_of, type_name
from warren.errors import WarrenError

ENVIRONMENT_PREFIX: Final = "WARREN_"
# Begin like options but are read elsewhere: by the build and by the command line's client side.
_NOT_OPTIONS: Final = {"WARREN_PURE", "WARREN_EXPECT", "WARREN_CONFIG", "WARREN_URL", "WARREN_AMQP_URL", "WARREN_URI"}
_TRUTHS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
# What stands in a table [cluster] goes by shorter names elsewhere.
_IN_CLUSTER: Final = {"name": "cluster"} | {
    name: name
    for name in (
        "etcd", "etcd_ca", "etcd_cert", "etcd_key", "replication_port", "stream_port", "stream_tls", "advertise",
        "min_in_sync", "lease_seconds",
    )
}  # fmt: skip


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
    kind = TYPES.get(name)
    try:
        if kind is bool:
            return _TRUTHS[text.lower()]
        if kind in (int, float):
            return kind(text)
    except (KeyError, ValueError):
        raise WarrenError(f"{where} must be {type_name(kind)}, not {text!r}") from None
    if get_origin(kind) is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _checked(where: str, name: str, value: object) -> object:
    field = OPTIONS.get(name)
    if field is None:
        near = get_close_matches(name, OPTIONS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise WarrenError(f"{where}: there is no such option (see docs/configuration.md){meant}")
    kind = TYPES[name]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not _is_of(value, kind):
        raise WarrenError(f"{where} must be {type_name(kind)}, not {value!r}")
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
