"""What a log directory shows to other users of the machine, and links in it, which are refused."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.private_files import make_private_directory, narrow
from odradek.foundation.registry_errors import StoreError
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files import SystemDisk
from tests.support.logs import StillClock, batch, load

CONFIG = LogConfig(segment_bytes=2000)
CLUSTER_ID = "abcdefghijklmnopqrstuv"
WHERE = TopicPartition("t", 0)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def opened(directory: Path) -> LogManager:
    manager = LogManager((str(directory),), disk=SystemDisk(), clock=StillClock(), broker_id=1)
    manager.directories.open()
    if manager.directories.cluster_id is None:
        manager.directories.set_cluster_id(CLUSTER_ID)
    load(manager, lambda _: CONFIG)
    return manager


def filled(directory: Path) -> None:
    manager = opened(directory)
    log = manager.create(WHERE, None, CONFIG)
    log.append(batch(b"a record"), leader_epoch=0)
    manager.close()


def modes(directory: Path) -> dict[bool, set[int]]:
    """The modes of all directories, and of all files."""
    found: dict[bool, set[int]] = {True: {mode(directory)}, False: set()}
    for path in directory.rglob("*"):
        found[path.is_dir()].add(mode(path))
    return found


@pytest.mark.usefixtures("umask")
def test_everything_that_is_made_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "data"
    filled(directory)
    asyncio.run(SqliteStore.open(str(directory / "registry.sqlite")).close())
    assert modes(tmp_path / "made") == {True: {0o700}, False: {0o600}}


def test_a_group_that_a_volume_is_shared_with_keeps_its_rights(tmp_path: Path, umask: int) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    # As Kubernetes makes it with fsGroup.
    volume.chmod(0o2775)
    filled(volume / "data")
    found = modes(volume / "data")
    assert found[False] == {0o660 & ~umask}
    assert {one & 0o777 for one in found[True]} == {0o770 & ~umask}
    registry = volume / "data" / "registry.sqlite"
    registry.write_bytes(b"")
    registry.chmod(0o660)
    assert narrow(str(registry)) is None


def test_a_wide_directory_is_said_and_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    directory = tmp_path / "data"
    for wide, words in ((0o755, "may read"), (0o750, "may read"), (0o777, "may change"), (0o700, "")):
        directory.mkdir(exist_ok=True)
        directory.chmod(wide)
        caplog.clear()
        filled(directory)
        lines = [one.getMessage() for one in caplog.records if "other users" in one.getMessage()]
        assert len(lines) == bool(words)
        assert words in "".join(lines)
        assert mode(directory) == wide


def test_a_registry_that_others_could_read_is_narrowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "registry.sqlite"

    async def write() -> None:
        store = SqliteStore.open(str(file))
        await store.create("/secret", b"x")
        assert {mode(one) for one in tmp_path.iterdir()} == {0o600}
        await store.close()

    asyncio.run(write())
    assert "other users" not in caplog.text
    for one in tmp_path.iterdir():
        one.chmod(0o666)
    asyncio.run(SqliteStore.open(str(file)).close())
    assert "its mode was 0666" in caplog.text
    assert {mode(one) for one in tmp_path.iterdir()} == {0o600}


def _link(victim: Path, name: Path) -> None:
    if name.exists():
        name.rename(victim)
    else:
        victim.write_bytes(b"precious")
    name.symlink_to(victim)


@pytest.mark.parametrize(
    "name",
    [
        "t-0/00000000000000000000.log",
        "t-0/00000000000000000000.index",
        "t-0/00000000000000000000.timeindex",
        "t-0/00000000000000000000.txnindex",
        "t-0/partition.metadata",
        "t-0/leader-epoch-checkpoint",
        "meta.properties",
        ".lock",
        "t-0",
        "u-0",
        "t-0.abc-delete",
        "recovery-point-offset-checkpoint",
    ],
)
def test_links_are_refused_and_what_they_point_to_stays(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory, victim = tmp_path / "data", tmp_path / "victim"
    filled(directory)
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    _link(victim, directory / name)

    def content() -> dict[str, bytes]:
        files = victim.rglob("*") if victim.is_dir() else [victim]
        return {str(one): one.read_bytes() for one in files}

    before = content()
    try:
        manager = opened(directory)
    except (KafkaStorageError, OSError) as error:
        assert "link" in str(error)
        assert name in str(error)
    else:
        assert manager.get(WHERE) is None
        assert manager.directories.failures
        assert "a link, which is not followed" in caplog.text
        assert name in caplog.text
        manager.close(clean=False)
    assert content() == before


def test_the_directory_itself_and_those_above_may_be_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "data").mkdir()
    (tmp_path / "real" / "data").symlink_to(tmp_path / "data")
    filled(tmp_path / "link" / "data")
    assert opened(tmp_path / "link" / "data").get(WHERE) is not None


def test_a_new_file_does_not_go_where_a_link_points(tmp_path: Path) -> None:
    disk, victim = SystemDisk(), tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in ("file", "checkpoint.tmp"):
        (tmp_path / name).symlink_to(victim)
    for attempt in (
        lambda: disk.open(str(tmp_path / "file"), create=True),
        lambda: disk.read(str(tmp_path / "file")),
        lambda: disk.lock(str(tmp_path / "file")),
        lambda: disk.replace(str(tmp_path / "checkpoint"), b"x"),
        lambda: disk.make_directory(str(tmp_path / "file")),
    ):
        with pytest.raises(OSError, match="link") as failure:
            attempt()
        assert failure.value.errno == errno.ELOOP
    assert victim.read_bytes() == b"precious"
    with pytest.raises(StoreError, match="link"):
        SqliteStore.open(str(tmp_path / "file"))
    (tmp_path / "registry.sqlite.reserve").symlink_to(victim)
    with pytest.raises(StoreError, match=r"reserve is a link"):
        SqliteStore.open(str(tmp_path / "registry.sqlite"))
    assert victim.read_bytes() == b"precious"


def test_folders_above_are_made_and_a_file_in_their_place_is_refused(tmp_path: Path) -> None:
    make_private_directory(f"{tmp_path}/a/b/c/")
    assert mode(tmp_path / "a") == 0o700
    make_private_directory(f"{tmp_path}/a/b/c")
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/below"):
        with pytest.raises(OSError):
            make_private_directory(f"{tmp_path}/{path}")
