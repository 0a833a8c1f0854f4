"""A registry file that is damaged at rest: refused as it is, never read as something else."""

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest

from odradek.foundation.registry_errors import StoreError
from odradek.metadata.registry.sqlite_store import SqliteStore

TOPICS = 60


def written(path: Path) -> bytes:
    async def scenario() -> None:
        store = SqliteStore.open(str(path))
        await store.create("/topics")
        for number in range(TOPICS):
            await store.create(f"/topics/t{number}", b'{"topic_id":"%d","configs":{}}' % number)
        await store.put("/topics/t1", b"changed")
        await store.delete("/topics/t2")
        await store.create("/here", ephemeral=True)
        await store.delete("/here")
        await store.close()

    asyncio.run(scenario())
    return path.read_bytes()


async def contents(store: SqliteStore) -> dict[str, bytes]:
    names = await store.children("/topics")
    return {name: (await store.get(f"/topics/{name}")).data for name in names}


def read(path: Path) -> dict[str, bytes]:
    async def scenario() -> dict[str, bytes]:
        store = SqliteStore.open(str(path))
        found = await contents(store)
        await store.close()
        return found

    return asyncio.run(scenario())


@pytest.mark.thorough
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    expected = read(tmp_path / "whole")
    assert len(expected) == TOPICS - 1
    chance = random.Random(5)
    # Free pages are zeros, and are never read.
    used = [start for start in range(0, len(whole), 512) if any(whole[start : start + 512])]
    refused = 0
    for number in range(400):
        data = bytearray(whole)
        data[chance.choice(used) + chance.randrange(512)] ^= 1 << chance.randrange(8)
        damaged = tmp_path / f"damaged-{number}"
        damaged.write_bytes(data)
        try:
            assert read(damaged) == expected
        except StoreError as error:
            assert str(damaged) in str(error)
            assert damaged.read_bytes() == data, "a file that is refused must stay as it is"
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM node WHERE path = '/topics/t7'",
        "UPDATE node SET path = '/topics/other' WHERE path = '/topics/t7'",
        "UPDATE node SET data = x'00' WHERE path = '/topics/t7'",
        "UPDATE node SET version = 9 WHERE path = '/topics/t7'",
        "UPDATE node SET data = 'text' WHERE path = '/topics/t7'",
        "UPDATE node SET version = 'text' WHERE path = '/topics/t7'",
        "INSERT INTO node VALUES ('/topics/more', x'00', 0, 0)",
        "UPDATE opening SET number = 7",
        "UPDATE opening SET seal = ''",
        "DELETE FROM opening",
        "DROP TABLE opening",
        "DROP TABLE node",
    ],
)
def test_what_others_wrote_is_refused_with_advice(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "registry"
    written(path)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"is damaged.*move it away"):
        SqliteStore.open(str(path))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, part: float) -> None:
    path = tmp_path / "registry"
    whole = written(path)
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(StoreError, match="is damaged"):
        SqliteStore.open(str(path))


def test_a_registry_without_a_seal_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "registry"
    written(path)
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE opening DROP COLUMN seal")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()
    assert len(read(path)) == TOPICS - 1
    connection = sqlite3.connect(path)
    connection.execute("UPDATE node SET data = x'00' WHERE path = '/topics/t7'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="is damaged"):
        SqliteStore.open(str(path))
