"""Which build is under test: `make test` runs the suite once on the source and once on what was compiled."""

from __future__ import annotations

import os

import pytest

from warren.amqp import constants


def test_the_installed_package_is_the_kind_that_was_asked_for() -> None:
    expected = os.environ.get("WARREN_EXPECT")
    if expected is None:
        pytest.skip("WARREN_EXPECT is not set: any build will do")
    is_compiled = not str(constants.__file__).endswith(".py")
    assert is_compiled == (expected == "compiled")
