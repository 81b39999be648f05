"""What the data pipeline finds on this machine, and what it lacks: one line each. Starts Spark to know."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

from warren.amqp.fields import plain
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.core import IS_COMPILED, describe_core
from warren.errors import WarrenError
from warren.extras import how_to_install
from warren.spark.java import OLDEST, find_java

# With the reason why it is needed.
PACKAGES: Final = (
    ("pyspark", "it is the engine"),
    ("pyarrow", "rows travel as Arrow"),
    ("numpy", "columns are laid out with it"),
    ("pandas", "Spark's Python functions ask for it"),
)
_DOCTOR_SECONDS: Final = 10.0


class Finding(NamedTuple):
    name: str
    is_found: bool
    # What was found, or what to do.
    text: str
    is_needed: bool = True


def examine(uri: str = "") -> list[Finding]:
    found = [_python(), *(_package(name, reason) for name, reason in PACKAGES), _java(), _format()]
    found += [_spark([finding.name for finding in found if not finding.is_found]), _build()]
    return [*found, _broker(uri)] if uri else found


def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()}, {sys.executable}")


def _package(name: str, reason: str) -> Finding:
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Finding(name, False, f"is missing, and {reason}: {how_to_install('spark')}")
    if name == "pyspark" and not installed.startswith("4.3."):
        return Finding(name, False, f"{installed} is here, and 4.3 is what works: {how_to_install('spark')}")
    if name == "pandas" and int(installed.partition(".")[0]) >= 3:
        return Finding(name, False, f"{installed} is too new for Spark 4.3: pip install 'pandas<3'")
    return Finding(name, True, installed)


def _java() -> Finding:
    java = find_java()
    if java is None:
        return Finding("java", False, f"is missing: install {OLDEST} or later, or {how_to_install('spark')}")
    return Finding("java", True, f"{java.version} from {java.origin}, {java.home}")


def _format() -> Finding:
    try:
        from pyspark_warren import DefaultSource
    except (ImportError, WarrenError) as error:
        return Finding("format", False, f"Spark will not find the format warren: {error}")
    return Finding("format", True, f"Spark finds the format {DefaultSource.name()} by itself")


def _spark(missing: list[str]) -> Finding:
    if missing:
        return Finding("spark", False, f"was not started: first mend {', '.join(missing)}")
    from warren.spark.trial import try_spark

    is_running, text = try_spark()
    return Finding("spark", is_running, text if is_running else f"does not run: {text}")


def _build() -> Finding:
    return Finding("core", IS_COMPILED, describe_core(), is_needed=False)


def _broker(uri: str) -> Finding:
    try:
        with Client(parse_uri(uri), "warren doctor", timeout=_DOCTOR_SECONDS) as client:
            said = client.server_properties
    except WarrenError as error:
        return Finding("broker", False, str(error))
    name = "Warren" if "warren_version" in said else str(said["product"].value) if "product" in said else "a broker"
    version = said.get("warren_version") or said.get("version")
    return Finding("broker", True, name if version is None else f"{name} {plain(version)}")
