"""What is read of the metadata log that Kafka leaves behind: topics' settings, over snapshots and damage."""

from __future__ import annotations

from odradek.protocol.varint import unsigned_varint
from odradek.records.builder import build_batch
from odradek.server.broker.kraft_metadata import DIRECTORY, read_kraft_metadata
from tests.support.disk import SimulatedDisk


def text(value: str | None) -> bytes:
    return b"\0" if value is None else unsigned_varint(len(value.encode()) + 1) + value.encode()


def topic(name: str, number: int) -> bytes:
    return b"\1\2\0" + text(name) + bytes([number] * 16) + b"\0"


def gone(number: int) -> bytes:
    return b"\1\x09\0" + bytes([number] * 16) + b"\0"


def setting(name: str, key: str, value: str | None, *, kind: int = 2) -> bytes:
    return b"\1\4\0" + bytes([kind]) + text(name) + text(key) + text(value) + b"\0"


def producer_ids(first_unused: int) -> bytes:
    return (
        b"\1\x0f\0"
        + (1).to_bytes(4, "big")
        + (9).to_bytes(8, "big")
        + first_unused.to_bytes(8, "big")
        + b"\0"
    )


def batch(base_offset: int, *values: bytes, is_control: bool = False) -> bytes:
    records = [(0, None, value) for value in values]
    return bytes(build_batch(records, base_offset=base_offset, is_control=is_control))


def written(**files: bytes) -> SimulatedDisk:
    """A disk with a metadata log of these files; `log_5` is the segment from offset 5, `snapshot_5` a snapshot."""
    disk = SimulatedDisk()
    disk.make_directory(f"d/{DIRECTORY}")
    for name, data in files.items():
        kind, _, offset = name.partition("_")
        number = f"{int(offset):020}"
        path = f"{number}.log" if kind == "log" else f"{number}-0000000001.checkpoint"
        disk.replace(f"d/{DIRECTORY}/{path}", data)
    return disk


def settings_of(disk: SimulatedDisk) -> dict[str, dict[str, str]]:
    return {name: dict(found) for name, found in read_kraft_metadata(disk, ["nowhere", "d"]).settings.items()}


def test_settings_are_set_changed_and_taken_away() -> None:
    log = batch(
        0, topic("a", 1), setting("a", "x", "1"), setting("a", "y", "1"), setting("b", "x", "9", kind=4)
    )
    log += batch(4, setting("a", "x", "2"), setting("a", "y", None), setting("a", "long", "v" * 300))
    assert settings_of(written(log_0=log)) == {"a": {"x": "2", "long": "v" * 300}}


def test_a_topic_that_was_made_again_has_none_of_the_old_settings() -> None:
    log = batch(0, topic("a", 1), setting("a", "x", "1"), gone(1), topic("a", 2), setting("a", "y", "1"))
    assert settings_of(written(log_0=log)) == {"a": {"y": "1"}}


def test_the_newest_snapshot_stands_for_all_below_it() -> None:
    disk = written(
        snapshot_2=batch(0, topic("a", 1), setting("a", "x", "too old")),
        snapshot_5=batch(0, topic("a", 1), setting("a", "x", "5")),
        log_0=batch(0, topic("a", 1), setting("a", "x", "0")),
        log_4=batch(4, setting("a", "z", "below"), setting("a", "y", "above")),
    )
    assert settings_of(disk) == {"a": {"x": "5", "y": "above"}}


def test_records_before_damage_are_read_and_control_records_skipped() -> None:
    log = batch(0, b"\0\0\0\1", is_control=True) + batch(1, topic("a", 1), setting("a", "x", "1"))
    for tail in (batch(3, b"\7"), batch(3, b"\1\4\0\2\xff"), batch(3, setting("a", "y", "1"))[:-2]):
        assert settings_of(written(log_0=log + tail)) == {"a": {"x": "1"}}


def test_the_next_producer_id_is_that_of_the_last_block() -> None:
    log = batch(0, producer_ids(1000), topic("a", 1), producer_ids(3000)) + batch(3, producer_ids(4000)[:-6])
    assert read_kraft_metadata(written(log_0=log), ["d"]).next_producer_id == 3000
    assert read_kraft_metadata(SimulatedDisk(), ["d"]).next_producer_id == 0


def test_where_no_kafka_was_there_is_nothing() -> None:
    assert settings_of(SimulatedDisk()) == {}


def acl(number: int) -> bytes:
    fields = b"\2" + text("orders") + b"\3" + text("User:a") + text("*") + b"\2\3\0"
    return b"\1\x12\0" + bytes([number] * 16) + fields


def user(name: str, *, is_gone: bool = False) -> bytes:
    return (
        (b"\1\x16\0" if is_gone else b"\1\x0b\0")
        + text(name)
        + b"\1"
        + (b"\0" if is_gone else b"\1\1\1\0\0\0\1\0")
    )


def quota(name: str | None, *, is_removed: bool = False) -> bytes:
    entities = unsigned_varint(3) + text("user") + text(name) + b"\0" + text("client-id") + text("c") + b"\0"
    return b"\1\x0e\0" + entities + text("producer_byte_rate") + bytes(8) + bytes([is_removed]) + b"\0"


def protection_of(disk: SimulatedDisk) -> list[str]:
    return list(read_kraft_metadata(disk, ["d"]).protection)


def test_what_protected_the_cluster_is_counted() -> None:
    log = batch(0, acl(1), acl(2), user("a"), quota("u"), quota(None), topic("t", 1))
    log += batch(
        6, setting("1", "ssl.client.auth", "required", kind=4), setting("", "num.io.threads", "9", kind=4)
    )
    assert protection_of(written(log_0=log)) == [
        "2 access control entries",
        "1 SCRAM user",
        "2 quotas of clients",
        "the setting ssl.client.auth",
    ]


def test_what_was_taken_away_protects_nothing() -> None:
    log = batch(0, acl(1), user("a"), quota(None), setting("1", "ssl.client.auth", "required", kind=4))
    gone_acl = b"\1\x13\0" + bytes([1] * 16) + b"\0"
    log += batch(
        4, gone_acl, user("a", is_gone=True), quota(None, is_removed=True),
        setting("1", "ssl.client.auth", None, kind=4),
    )  # fmt: skip
    assert protection_of(written(log_0=log)) == []
    assert protection_of(SimulatedDisk()) == []
