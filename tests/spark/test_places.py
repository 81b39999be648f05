"""Names of places, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.errors import WarrenError
from warren.spark.folders import LocalFolder, folder_at
from warren.spark.places import absolute, is_local, local_path


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("table", "/base/table"),
        ("../table", "/table"),
        ("/a/b/", "/a/b"),
        ("file:///a/with%20space", "/a/with space"),
        ("a:b/c", "/base/a:b/c"),
        ("s3a://bucket/table/", "s3a://bucket/table"),
        ("viewfs://cluster/data", "viewfs://cluster/data"),
    ],
)
def test_a_path_counts_from_a_folder_and_an_address_is_what_it_is(place: str, expected: str) -> None:
    assert absolute(place, Path("/base")) == expected


def test_an_address_is_reached_through_spark_and_a_path_without() -> None:
    assert isinstance(folder_at("/somewhere", None), LocalFolder)
    assert local_path("file:/a/b") == Path("/a/b")
    assert not is_local("hdfs://namenode/a")
    with pytest.raises(WarrenError, match=r"^s3a://bucket/t can be reached only through a Spark session of this"):
        folder_at("s3a://bucket/t", None)
