"""Folders that tables, checkpoints and pipelines keep their files in: of this machine, or at any address that Spark can
name (s3a://, hdfs://, abfss://, gs://, viewfs://).

The one is read and written by Python, the other through Spark, with the credentials that Spark has. Names of files are
relative to the folder, with / between their parts.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as parquet
from pyarrow import fs

from warren.errors import WarrenError
from warren.spark.places import is_local, local_path, scheme_of
from warren.spark.whole_files import write_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMPRESSION: Final = "zstd"
# What Hadoop says of an address that none of its jars is for.
_NO_FILE_SYSTEM: Final = ("ClassNotFoundException", "No FileSystem for scheme")
# Those that PySpark does not ship, by the scheme of the address.
_JARS: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:VERSION",
}


class Folder(Protocol):
    place: str

    def make(self) -> None: ...

    def files(self, below: str = "") -> list[tuple[str, int]]:
        """Names and sizes of the Parquet files in it and in its folders."""

    def read(self, name: str) -> str | None:
        """A text; None when there is none of that name."""

    def write(self, name: str, text: str) -> None:
        """Whole or not at all, and on disk when this returns."""

    def move(self, name: str, target: str) -> None:
        """Folders on the way are made. Nothing happens when it is not there, because it was moved before."""

    def remove(self, name: str) -> None:
        """A file or a folder; nothing happens when it is not there."""

    def rows(self, names: list[str]) -> int:
        """How many rows are in these files."""

    def merge(self, names: list[str], target: str) -> bool:
        """Write the rows of these files as one file with all their columns. False when their types contradict."""


def folder_at(place: str, spark: SparkSession | None) -> Folder:
    if is_local(place):
        return LocalFolder(local_path(place))
    if spark is None or not hasattr(spark, "_jsc"):
        raise WarrenError(f"{place} can be reached only through a Spark session of this process")
    return SparkFolder(place, spark)


def arrow_place(place: str) -> tuple[fs.FileSystem, str]:
    """For Python on an executor, which has no door to Spark: of the addresses Arrow knows most, by other names."""
    if is_local(place):
        return fs.LocalFileSystem(), str(local_path(place))
    system, path = fs.FileSystem.from_uri(place.replace("s3a://", "s3://", 1))
    return system, path


def write_parquet(place: str, name: str, table: pa.Table) -> None:
    """Under a name that readers of Parquet skip until it is whole."""
    system, folder = arrow_place(place)
    system.create_dir(folder, recursive=True)
    draft = f"{folder}/_{name}.{os.getpid()}"
    parquet.write_table(table, draft, compression=_COMPRESSION, filesystem=system)
    system.move(draft, f"{folder}/{name}")


class Share:
    """Tells an executor whether it sees the folder that the driver means: the driver leaves a note there."""

    def __init__(self, place: str, name: str) -> None:
        self.place = place
        self._file = f"_shared.{name}"
        self._text = uuid4().hex
        system, folder = arrow_place(place)
        system.create_dir(folder, recursive=True)
        with system.open_output_stream(f"{folder}/{self._file}") as file:
            file.write(self._text.encode())

    def check(self) -> None:
        system, folder = arrow_place(self.place)
        try:
            with system.open_input_stream(f"{folder}/{self._file}") as file:
                is_shared = file.read().decode() == self._text
        except FileNotFoundError:
            is_shared = False
        if not is_shared:
            raise WarrenError(
                f"{self.place} is not shared: the executor on {socket.gethostname()} has another folder of that name "
                "than the driver, or none; name a place that all of them reach, such as s3a://bucket/folder"
            )


def no_file_system(place: str, hadoop: str) -> str:
    scheme = scheme_of(place)
    jar = _JARS.get(scheme, "GROUP:NAME:VERSION of its jar").format(hadoop=hadoop)
    if scheme == "s3":
        return f"Spark knows no {scheme}://: write {place.replace('s3', 's3a', 1)}"
    return f"Spark cannot reach {place}: it needs a jar, by the setting spark.jars.packages ({jar}) or spark.jars"


class LocalFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = str(path)

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def files(self, below: str = "") -> list[tuple[str, int]]:
        found = (self.path / below).rglob("*.parquet")
        return [(path.relative_to(self.path).as_posix(), path.stat().st_size) for path in found]

    def read(self, name: str) -> str | None:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)

    def move(self, name: str, target: str) -> None:
        if (self.path / name).exists():
            (self.path / target).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).rename(self.path / target)

    def remove(self, name: str) -> None:
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def rows(self, names: list[str]) -> int:
        return sum(parquet.read_metadata(self.path / name).num_rows for name in names)

    def merge(self, names: list[str], target: str) -> bool:
        paths = [self.path / name for name in names]
        try:
            schema = pa.unify_schemas([parquet.read_schema(path) for path in paths])
        except pa.ArrowTypeError:
            return False
        draft = self.path / target
        draft.parent.mkdir(parents=True, exist_ok=True)
        # Without the note in which Spark keeps the columns: it is that of the first file, and Spark believes it.
        schema = schema.remove_metadata()
        # It brings pandas along, which is as much as all else that a process of a data source imports.
        from pyarrow import dataset

        source = dataset.dataset([str(path) for path in paths], schema=schema, format="parquet")
        with parquet.ParquetWriter(draft, schema, compression=_COMPRESSION) as writer:
            for batch in source.to_batches():
                writer.write_batch(batch)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        return True


class SparkFolder:
    """Through Hadoop's file systems, which Spark has one of for every kind of address."""

    def __init__(self, place: str, spark: SparkSession) -> None:
        self.place = place.rstrip("/")
        self._spark = spark
        # Spark's own gateway to Java: PySpark has no other door to a file system.
        self._java: Any = spark._jvm
        self._system: Any = self._file_system()

    def make(self) -> None:
        self._system.mkdirs(self._path(""))

    def files(self, below: str = "") -> list[tuple[str, int]]:
        if not self._system.exists(self._path(below)):
            return []
        root = str(self._system.makeQualified(self._path("")).toUri().getPath()).rstrip("/") + "/"
        found = self._system.listFiles(self._path(below), True)
        names: list[tuple[str, int]] = []
        while found.hasNext():
            status = found.next()
            name = str(status.getPath().toUri().getPath()).removeprefix(root)
            if name.endswith(".parquet"):
                names.append((name, int(status.getLen())))
        return names

    def read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        # Object stores show a file when it is closed; the others hold it back under another name.
        draft = self._path(f"{name}.new")
        stream = self._system.create(draft, True)
        stream.write(text.encode())
        stream.close()
        self._system.delete(self._path(name), False)
        self.move(f"{name}.new", name)

    def move(self, name: str, target: str) -> None:
        if not self._system.exists(self._path(name)):
            return
        self._system.mkdirs(self._path(target).getParent())
        if not self._system.rename(self._path(name), self._path(target)):
            raise WarrenError(f"cannot move {name} to {target} in {self.place}")

    def remove(self, name: str) -> None:
        self._system.delete(self._path(name), True)

    def rows(self, names: list[str]) -> int:
        return self._spark.read.parquet(*(f"{self.place}/{name}" for name in names)).count() if names else 0

    def merge(self, names: list[str], target: str) -> bool:
        from pyspark.errors import PySparkException

        paths = [f"{self.place}/{name}" for name in names]
        try:
            rows = self._spark.read.option("mergeSchema", "true").parquet(*paths)
        except PySparkException:
            return False
        parts = f"{target}.parts"
        rows.coalesce(1).write.mode("overwrite").option("compression", _COMPRESSION).parquet(f"{self.place}/{parts}")
        for name, _ in self.files(parts):
            self.move(name, target)
        self.remove(parts)
        return True

    def _file_system(self) -> Any:
        from py4j.protocol import Py4JJavaError

        try:
            return self._path("").getFileSystem(self._spark._jsc.hadoopConfiguration())
        except Py4JJavaError as error:
            text = str(error.java_exception)
            if not any(each in text for each in _NO_FILE_SYSTEM):
                raise
            version = self._java.org.apache.hadoop.util.VersionInfo.getVersion()
            raise WarrenError(no_file_system(self.place, str(version))) from error

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self.place}/{name}" if name else self.place)
