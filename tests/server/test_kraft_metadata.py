"""What is read of the metadata log that Kafka leaves behind: topics' settings, over snapshots and damage."""

from __future__ import annotations

import struct

import pytest

from odradek.broker.process.access_takeover import AccessTakeover
from odradek.broker.process.kraft_access import AccessControl, ClientQuota, KraftAccess, ScramUser
from odradek.broker.process.kraft_metadata import DIRECTORY, read_kraft_metadata
from odradek.foundation.client_entities import ClientEntity
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.metadata.controller.controller import Controller
from odradek.security.authentication.scram import ScramCredential
from odradek.wire.protocol.varint import encode_unsigned_varint
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.whole_broker import WholeBroker


def text(value: str | None) -> bytes:
    return b"\0" if value is None else encode_unsigned_varint(len(value.encode()) + 1) + value.encode()


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


def acl(number: int, *, operation: int = 3, resource: str = "orders") -> bytes:
    fields = b"\2" + text(resource) + b"\3" + text("User:a") + text("*") + bytes([operation, 3]) + b"\0"
    return b"\1\x12\0" + bytes([number] * 16) + fields


def user(name: str, *, is_gone: bool = False, mechanism: int = 1, iterations: int = 4096) -> bytes:
    if is_gone:
        return b"\1\x16\0" + text(name) + bytes([mechanism, 0])
    keys = b"".join(text(key) for key in ("salt", "stored", "server"))
    return b"\1\x0b\0" + text(name) + bytes([mechanism]) + keys + iterations.to_bytes(4, "big") + b"\0"


def quota(name: str | None, value: float = 1000.0, *, is_removed: bool = False) -> bytes:
    entities = (
        encode_unsigned_varint(3) + text("user") + text(name) + b"\0" + text("client-id") + text("c") + b"\0"
    )
    fields = text("producer_byte_rate") + struct.pack(">d", value) + bytes([is_removed])
    return b"\1\x0e\0" + entities + fields + b"\0"


def access_of(**files: bytes) -> KraftAccess:
    return read_kraft_metadata(written(**files), ["d"]).access


def test_users_quotas_and_acls_are_read_and_taken_away() -> None:
    log = batch(0, acl(1), acl(2, operation=4), user("a"), user("a", mechanism=2), quota("u"), quota(None))
    log += batch(6, user("a", iterations=8192), quota("u", 5.5))
    access = access_of(log_0=log)
    assert list(access.acls.values()) == [
        AccessControl(2, "orders", 3, "User:a", "*", 3, 3),
        AccessControl(2, "orders", 3, "User:a", "*", 4, 3),
    ]
    assert sorted(access.users.values()) == [
        ScramUser("a", 1, b"salt", b"stored", b"server", 8192),
        ScramUser("a", 2, b"salt", b"stored", b"server", 4096),
    ]
    parts = (("user", "u"), ("client-id", "c"))
    assert set(access.quotas.values()) == {
        ClientQuota(parts, "producer_byte_rate", 5.5),
        ClientQuota((("user", None), ("client-id", "c")), "producer_byte_rate", 1000.0),
    }
    gone_acl = b"\1\x13\0" + bytes([1] * 16) + b"\0"
    log += batch(8, gone_acl, user("a", is_gone=True), quota("u", is_removed=True))
    access = access_of(log_0=log)
    assert len(access.acls) == len(access.users) == len(access.quotas) == 1


def test_a_truncated_record_ends_what_is_read() -> None:
    whole = acl(1)
    for size in range(len(whole) - 8, len(whole) - 1):
        assert list(access_of(log_0=batch(0, user("a"), whole[:size], user("b"))).users.values()) == [
            ScramUser("a", 1, b"salt", b"stored", b"server", 4096)
        ]
    for record in (user("a")[:-3], quota("a")[:-4]):
        assert list(access_of(log_0=batch(0, record)).users) == []


def protection_of(disk: SimulatedDisk) -> list[str]:
    return list(read_kraft_metadata(disk, ["d"]).protection)


def test_settings_that_protected_brokers_are_named() -> None:
    log = batch(
        0, setting("1", "ssl.client.auth", "required", kind=4), setting("", "num.io.threads", "9", kind=4)
    )
    assert protection_of(written(log_0=log)) == ["the setting ssl.client.auth"]
    log += batch(2, setting("1", "ssl.client.auth", None, kind=4))
    assert protection_of(written(log_0=log)) == []
    assert protection_of(SimulatedDisk()) == []


@pytest.mark.thorough
async def test_what_can_be_used_is_taken_over_once_and_overwrites_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = batch(
        0, acl(1), acl(2, operation=99), acl(3, resource=""), user("a"), user("kept"),
        user("few", iterations=1), user("odd", mechanism=9), quota("u"), quota("bad", -1.0),
    )  # fmt: skip
    whole = await WholeBroker.start()
    controller, images = whole.broker.controller, whole.broker.images
    assert isinstance(controller, Controller)
    kept = ClientConfigChange(ClientEntity(user="kept"), {"SCRAM-SHA-256": "mine"})
    await controller.change_client_configs([kept])
    takeover = AccessTakeover(controller, images, has_authorizer=False)
    await takeover.take_over(access_of(log_0=log))
    found = images.current.client_configs
    assert found == {
        ClientEntity(user="kept"): {"SCRAM-SHA-256": "mine"},
        ClientEntity(user="a"): {"SCRAM-SHA-256": ScramCredential(b"salt", b"stored", b"server", 4096).text},
        ClientEntity(user="u", client_id="c"): {"producer_byte_rate": "1000"},
    }
    assert images.current.acls is not None
    assert len(list(images.current.acls)) == 1
    await whole.broker.stop()
    said = caplog.text
    assert (
        "taken over from Kafka's metadata: 1 access control entry, 1 SCRAM user, 1 quota of a client" in said
    )
    assert "decide nothing here" in said
    for lost in ("the SCRAM user few of Kafka is lost", "the SCRAM user odd", "'bad'"):
        assert lost in said
    assert said.count("an access control entry of Kafka is lost") == 2
