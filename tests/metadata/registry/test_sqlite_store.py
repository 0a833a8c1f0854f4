"""The registry in a file: what it keeps, through any end of its process."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.foundation.registry_errors import StoreConnectionLost, StoreError, StoreSessionExpired
from odradek.metadata.registry import sqlite_store
from odradek.metadata.registry.sqlite_store import SqliteStore

BROKER_ROOT = Path(__file__).parents[3] / "broker"

WRITER = """
import asyncio, sys
from odradek.metadata.registry.sqlite_store import SqliteStore

async def main():
    store = SqliteStore.open(sys.argv[1])
    await store.create("/n")
    await store.create("/gone", ephemeral=True)
    for number in range(1_000_000):
        await store.create(f"/n/{number}", b"x" * 100)
        print(number, flush=True)

asyncio.run(main())
"""


def test_what_was_written_is_there_again_and_ephemerals_are_not(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")

    async def first() -> None:
        store = SqliteStore.open(path)
        await store.create("/a", b"one")
        await store.put("/a", b"two")
        await store.create("/a/b", b"\0\xff")
        await store.create("/e", ephemeral=True)
        await store.delete("/a/b")
        await store.create("/a/c")
        await store.close()
        await store.close()
        with pytest.raises(StoreSessionExpired):
            await store.get("/a")

    async def second() -> None:
        store = SqliteStore.open(path)
        assert (await store.get("/a"))[:2] == (b"two", 1)
        assert await store.children("/a") == ["c"]
        assert await store.children("/") == ["a"]
        await store.close()

    asyncio.run(first())
    asyncio.run(second())


@pytest.mark.integration
def test_nothing_that_was_answered_is_lost_by_kill_9(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    for _ in range(3):
        Path(path).unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(BROKER_ROOT)},
        ) as process:
            assert process.stdout is not None
            answered = [process.stdout.readline() for _ in range(40)]
            process.send_signal(signal.SIGKILL)
            answered += process.stdout.readlines()
        last = int([line for line in answered if line.endswith("\n")][-1])

        async def look(last: int = last) -> None:
            store = SqliteStore.open(path)
            names = {int(name) for name in await store.children("/n")}
            # One more may have been written and not answered.
            assert names in (set(range(last + 1)), set(range(last + 2)))
            assert not await store.exists("/gone")
            await store.close()

        asyncio.run(look())


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    store = SqliteStore.open(path)
    with pytest.raises(StoreError, match="in use by another process"):
        SqliteStore.open(path)
    await store.close()
    await SqliteStore.open(path).close()


def test_files_that_are_no_registry_are_refused_with_their_name(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no database" * 1000)
    with pytest.raises(StoreError, match=r"text.*not a database"):
        SqliteStore.open(str(text))
    with pytest.raises(StoreError, match="is the directory there"):
        SqliteStore.open(str(tmp_path / "missing" / "registry.db"))
    later = tmp_path / "later"
    connection = sqlite3.connect(later)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="layout 99"):
        SqliteStore.open(str(later))


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (sqlite3.SQLITE_FULL, "enlarge the volume"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "may this user write"),
        (sqlite3.SQLITE_BUSY, "another process"),
        (sqlite3.SQLITE_NOTADB, "estore a copy of it"),
    ],
)
def test_a_file_that_cannot_be_opened_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("as SQLite words it")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(sqlite_store, "_load", fail)
    with pytest.raises(StoreError, match=f"(?i){advice}") as caught:
        SqliteStore.open(str(tmp_path / "registry.db"))
    assert "registry.db" in str(caught.value)


async def test_a_write_that_fails_changes_nothing_and_says_so(tmp_path: Path) -> None:
    store = SqliteStore.open(str(tmp_path / "registry.db"))
    await store.create("/a")
    # A full disk in miniature: the file may not grow any more.
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreConnectionLost, match="full"):
        await store.create("/big", b"x" * 1_000_000)
    assert not await store.exists("/big")
    store._connection.execute("PRAGMA max_page_count = 1000000")
    await store.create("/big", b"x" * 1_000_000)
    await store.close()


async def test_the_reserve_is_in_an_open_registry_and_beside_a_closed_one(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    reserve = tmp_path / "registry.db.reserve"
    written_ahead = tmp_path / "registry.db-wal"
    for _ in range(2):
        store = SqliteStore.open(str(path))
        assert not reserve.exists()
        assert 200_000 < written_ahead.stat().st_size <= 262_144
        assert store._connection.execute("PRAGMA freelist_count").fetchone()[0] * 4096 > 100_000
        await store.close()
        assert reserve.stat().st_size == 262_144
        assert not written_ahead.exists()


def test_writes_go_on_where_no_file_may_grow(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    # A full disk in miniature: the limit on a file's size is that of the write-ahead log.
    script = f"""
import asyncio, os, resource, signal
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.foundation.registry_errors import StoreWriteFailed

async def main():
    store = SqliteStore.open({path!r})
    await store.create("/a")
    await store.create("/b")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    bytes_max = os.path.getsize({path + "-wal"!r})
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max))
    for number in range(300):
        await store.put("/a", str(number).encode())
    await store.delete("/b")
    try:
        await store.create("/large", b"x" * 1_000_000)
    except StoreWriteFailed as failure:
        print(failure)
    await store.delete("/a")
    print(await store.children("/"))

asyncio.run(main())
"""
    environment = {"PYTHONPATH": str(BROKER_ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    refusal, children = done.stdout.splitlines()
    assert refusal.startswith(f"the registry {path} could not be written")
    assert children == "[]"


async def test_a_caller_that_gives_up_leaves_memory_and_disk_alike(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    store = SqliteStore.open(path)
    task = asyncio.ensure_future(store.create("/a"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # The next write waits for the one given up, if that was under way.
    await store.create("/b")
    in_memory = await store.children("/")
    await store.close()
    again = SqliteStore.open(path)
    assert await again.children("/") == in_memory
    await again.close()


def test_change_numbers_rise_across_restarts_even_without_durable_writes(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "registry.db")

    async def epoch_of_an_ephemeral() -> int:
        store = SqliteStore.open(path)
        created = await store.create("/e", ephemeral=True)
        assert (await store.get("/e")).created == created
        await store.close()
        return created

    numbers = [asyncio.run(epoch_of_an_ephemeral()) for _ in range(3)]
    assert numbers == sorted(set(numbers))


async def test_a_registry_of_the_first_layout_is_brought_up(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
    )
    connection.execute("INSERT INTO node VALUES ('/a', x'6f6e65', 7)")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    store = SqliteStore.open(path)
    old = await store.get("/a")
    assert old == (b"one", 7, 0, 0)
    assert await store.create("/a/b") > old.created
    await store.close()
    again = SqliteStore.open(path)
    assert (await again.get("/a")).version == 7
    assert await again.exists("/a/b")
    await again.close()
