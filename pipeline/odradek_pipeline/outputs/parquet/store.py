"""The store of a table's files. One call matters: `create` makes a file whole, and never over one that is there.

- A local file system links a file that is written and synced. A link never replaces a name.
- HDFS renames without the option to overwrite, which the name node does as one step.
- S3 by s3a puts on condition, where this Hadoop can. A rename there is a copy and decides nothing.

Other stores are refused: without such a call two runs could both publish.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from odradek.foundation.syncing import sync
from odradek_pipeline.errors import JobRefusedError

_CONDITIONAL_CREATE: Final = "fs.option.create.conditional.overwrite"
_LOCAL: Final = ("", "file")
_RENAMING: Final = ("hdfs", "viewfs")
_CONDITIONAL: Final = ("s3a",)


class StoredFile(NamedTuple):
    """A file below the table, with `/` between folders."""

    path: str
    size_bytes: int


class FileStore(Protocol):
    """The files of one table, by paths below its root."""

    def url(self, path: str) -> str:
        """The path as Spark takes it."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Make a file that is durable when this returns; False when there is one of this name."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Make a file, or replace it; it may be lost with the machine."""
        ...

    def list_files(self, folder: str) -> list[StoredFile]:
        """All files below a folder, by path; none when it does not exist."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all it has; nothing happens when there is none."""
        ...

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files durable that Spark wrote."""
        ...


def open_store(spark: SparkSession, location: str) -> FileStore:
    """The store of a folder or URL. Raises JobRefusedError where no exclusive create is known."""
    parts = urlsplit(location)
    if is_local(location):
        return LocalStore(local_path(location))
    if parts.scheme in (*_RENAMING, *_CONDITIONAL):
        return HadoopStore(spark, location, is_renaming=parts.scheme in _RENAMING)
    raise JobRefusedError(
        f"{location}: Parquet needs a store that can create a file exclusively, and none is known for "
        f"{parts.scheme}://. Use a local path, hdfs:// or s3a://, or the formats delta or iceberg"
    )


def is_local(location: str) -> bool:
    """Whether it is a folder of this machine, which needs no Spark."""
    return urlsplit(location).scheme in _LOCAL


def local_path(location: str) -> Path:
    parts = urlsplit(location)
    return Path(unquote(parts.path) if parts.scheme else location)


class LocalStore:
    """A folder of this machine, or one that all machines mount."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def url(self, path: str) -> str:
        return (self._root / path).as_uri()

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, path: str, content: bytes) -> bool:
        final = self._root / path
        written = self._write_scratch(final, content)
        try:
            os.link(written, final)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        _sync_folder(final.parent)
        return True

    def write(self, path: str, content: bytes) -> None:
        final = self._root / path
        self._write_scratch(final, content, is_durable=False).replace(final)

    def list_files(self, folder: str) -> list[StoredFile]:
        found = []
        for parent, _, names in os.walk(self._root / folder):
            for name in names:
                one = Path(parent) / name
                with contextlib.suppress(FileNotFoundError):
                    found.append(StoredFile(one.relative_to(self._root).as_posix(), one.stat().st_size))
        return sorted(found)

    def remove(self, path: str) -> None:
        one = self._root / path
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)

    def sync_files(self, paths: Iterable[str]) -> None:
        folders: set[Path] = set()
        for path in paths:
            one = self._root / path
            with one.open("rb") as opened:
                sync(opened.fileno())
            folders.update((one.parent, one.parent.parent))
        for folder in sorted(folders):
            _sync_folder(folder)

    def _write_scratch(self, final: Path, content: bytes, *, is_durable: bool = True) -> Path:
        final.parent.mkdir(parents=True, exist_ok=True)
        written = final.with_name(f".{final.name}.{os.getpid()}.{os.urandom(4).hex()}")
        with written.open("xb") as opened:
            opened.write(content)
            if is_durable:
                opened.flush()
                sync(opened.fileno())
        return written


class HadoopStore:
    """A file system of Hadoop, through Spark's JVM."""

    def __init__(self, spark: SparkSession, location: str, *, is_renaming: bool) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._root = location.rstrip("/")
        self._is_renaming = is_renaming
        self._configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._files: Any = self._path("").getFileSystem(self._configuration)

    def url(self, path: str) -> str:
        return f"{self._root}/{path}"

    def read(self, path: str) -> bytes | None:
        if not self._files.exists(self._path(path)):
            return None
        opened = self._files.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(opened))
        finally:
            opened.close()

    def create(self, path: str, content: bytes) -> bool:
        return self._rename_scratch(path, content) if self._is_renaming else self._put(path, content)

    def write(self, path: str, content: bytes) -> None:
        opened = self._files.create(self._path(path), True)
        opened.write(content)
        opened.close()

    def list_files(self, folder: str) -> list[StoredFile]:
        if not self._files.exists(self._path(folder)):
            return []
        listing = self._files.listFiles(self._path(folder), True)
        prefix = self._files.makeQualified(self._path("")).toString().rstrip("/") + "/"
        found = []
        while listing.hasNext():
            one = listing.next()
            found.append(StoredFile(one.getPath().toString().removeprefix(prefix), int(one.getLen())))
        return sorted(found)

    def remove(self, path: str) -> None:
        self._files.delete(self._path(path), True)

    def sync_files(self, paths: Iterable[str]) -> None:
        """A file that is closed is durable there."""

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(path) if path else self._root)

    def _rename_scratch(self, path: str, content: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        written = f"{folder}/.{name}.{os.urandom(8).hex()}"
        self.write(written, content)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._files.getUri(), self._configuration
        )
        options = self._jvm.java.lang.reflect.Array.newInstance(
            self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename"), 0
        )
        try:
            context.rename(self._path(written), self._path(path), options)
        except Exception as failure:  # py4j has one class for all of Java's
            self.remove(written)
            if "FileAlreadyExistsException" not in str(failure):
                raise
            return False
        return True

    def _put(self, path: str, content: bytes) -> bool:
        builder = self._files.createFile(self._path(path)).must(_CONDITIONAL_CREATE, "true")
        try:
            opened = builder.build()
        except Exception as failure:  # py4j has one class for all of Java's
            if "IllegalArgumentException" in str(failure):
                raise JobRefusedError(
                    f"{self._root}: this Hadoop cannot create a file on condition that none is there "
                    f"({_CONDITIONAL_CREATE}). Use a newer hadoop-aws, or the formats delta or iceberg"
                ) from failure
            if "FileAlreadyExistsException" in str(failure):
                return False
            raise
        try:
            opened.write(content)
            opened.close()
        except Exception as failure:  # S3 decides when the file is closed
            if "FileAlreadyExistsException" in str(failure) or "412" in str(failure):
                return False
            raise
        return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
