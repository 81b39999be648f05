"""Which build is under test: what is installed, compiled where that is possible, or the source as it stands."""

from __future__ import annotations

import os

import pytest

from warren.core import IS_COMPILED


def test_the_installed_package_is_the_kind_that_was_asked_for() -> None:
    expected = os.environ.get("WARREN_EXPECT")
    if expected is None:
        pytest.skip("WARREN_EXPECT is not set: any build will do")
    assert (expected == "compiled") == IS_COMPILED
