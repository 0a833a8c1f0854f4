"""Records of the offsets topic: the bytes are those that Apache Kafka 4.1.1's own classes write."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.groups.classic.schema import (
    ClassicGroupValue,
    ClassicMemberValue,
    decode_classic_group_value,
    encode_classic_group_key,
    encode_classic_group_value,
)
from odradek.broker.groups.consumer import schema as consumer
from odradek.broker.groups.consumer.schema import (
    ClassicProtocols,
    CurrentValue,
    GroupValue,
    MemberState,
    MemberValue,
    PatternValue,
    TargetEpochValue,
    TargetValue,
)
from odradek.broker.groups.schema import (
    OffsetAndMetadata,
    OffsetKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from odradek.foundation.errors import CorruptRecord

TOPIC_ID = UUID("01234567-89ab-cdef-0fed-cba987654321")
GOLDEN = {
    "offset_commit_key": "00010001670005746f70696300000007",
    "offset_commit_value_v0": "0000000000000000002a00056dc3a974610000018bcfe56800",
    "offset_commit_value_v1": "0001000000000000002a00056dc3a974610000018bcfe568000000018bcfe6eea0",
    "offset_commit_value_v2": "0002000000000000002a00056dc3a974610000018bcfe56800",
    "offset_commit_value_v3": "0003000000000000002a0000000500056dc3a974610000018bcfe56800",
    "offset_commit_value_v4": (
        "0004000000000000002a00000005066dc3a974610000018bcfe568000100100123456789abcdef0fedcba987654321"
    ),
    "offset_commit_value_v4_plain": "0004000000000000002a00000005010000018bcfe5680000",
    "group_metadata_key": "000200076772c3bc707065",
    "group_metadata_value_v0": (
        "00000008636f6e73756d657200000003000572616e676500036d2d310000000200036d2d31000163000a2f3132372e30"
        "2e302e310000afc80000000301020300000002040500036d2d3200000000000027100000000000000000"
    ),
    "group_metadata_value_v1": (
        "00010008636f6e73756d657200000003000572616e676500036d2d310000000200036d2d31000163000a2f3132372e30"
        "2e302e31000493e00000afc80000000301020300000002040500036d2d3200000000ffffffff00002710000000000000"
        "0000"
    ),
    "group_metadata_value_v2": (
        "00020008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000200036d2d31000163"
        "000a2f3132372e302e302e31000493e00000afc80000000301020300000002040500036d2d3200000000ffffffff0000"
        "27100000000000000000"
    ),
    "group_metadata_value_v3": (
        "00030008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000200036d2d31000469"
        "6e7374000163000a2f3132372e302e302e31000493e00000afc80000000301020300000002040500036d2d32ffff0000"
        "0000ffffffff000027100000000000000000"
    ),
    "group_metadata_value_v4": (
        "000409636f6e73756d6572000000030672616e6765046d2d310000018bcfe5680003046d2d3105696e737402630b2f31"
        "32372e302e302e31000493e00000afc80401020303040500046d2d32000101ffffffff0000271001010000"
    ),
    "group_metadata_value_empty": "0003000000000000ffffffff0000018bcfe5680000000000",
    "consumer_group_metadata_key": "0003000167",
    "consumer_group_metadata_value": "00000000000b010008ffffffffffffffb3",
    "consumer_group_metadata_value_plain": "00000000000b00",
    "partition_metadata_key": "0004000167",
    "partition_metadata_value": (
        "0000020123456789abcdef0fedcba987654321027400000003020000000103037231037232000000"
    ),
    "member_metadata_key": "000500016700016d",
    "member_metadata_value": "00000269000263032f68030261026204782e2a0000ea6008756e69666f726d00",
    "member_metadata_value_classic": (
        "00000269000263032f680302610262010000ea6008756e69666f726d010011010000afc8020672616e67650309080000"
    ),
    "target_metadata_key": "0006000167",
    "target_metadata_value": "00000000000900",
    "target_member_key": "000700016700016d",
    "target_member_value": "0000020123456789abcdef0fedcba9876543210400000000000000010000012c0000",
    "current_assignment_key": "000800016700016d",
    "current_assignment_value": (
        "0000000000050000000401020123456789abcdef0fedcba987654321020000000000020123456789abcdef0fedcba987"
        "6543210300000001000000020000"
    ),
    "regex_key": "00100001670003782e2a",
    "regex_value": "000003037861037862000000000000007b0000018bcfe5680000",
}

NOW = 1700000000000
MEMBER_1 = ClassicMemberValue(
    member_id="m-1",
    group_instance_id="inst",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300000,
    session_timeout_ms=45000,
    subscription=b"\1\2\3",
    assignment=b"\4\5",
)
MEMBER_2 = ClassicMemberValue(
    member_id="m-2",
    client_id="",
    client_host="",
    session_timeout_ms=10000,
    subscription=b"",
    assignment=b"",
)
CLASSIC = ClassicGroupValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m-1",
    state_timestamp_ms=NOW,
    members=(MEMBER_1, MEMBER_2),
)
MEMBER = MemberValue(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/h",
    topic_names=("a", "b"),
    topic_regex="x.*",
    rebalance_timeout_ms=60000,
    server_assignor="uniform",
)
CONSUMER_VALUES: dict[str, tuple[int, consumer.Value]] = {
    "consumer_group_metadata_value": (3, GroupValue(11, -77)),
    "consumer_group_metadata_value_plain": (3, GroupValue(11)),
    "member_metadata_value": (5, MEMBER),
    "member_metadata_value_classic": (
        5,
        MemberValue(
            instance_id="i",
            rack_id=None,
            client_id="c",
            client_host="/h",
            topic_names=("a", "b"),
            topic_regex="",
            rebalance_timeout_ms=60000,
            server_assignor="uniform",
            classic=ClassicProtocols(45000, (("range", b"\x09\x08"),)),
        ),
    ),
    "target_metadata_value": (6, TargetEpochValue(9)),
    "target_member_value": (7, TargetValue({TOPIC_ID: frozenset({0, 1, 300})})),
    "current_assignment_value": (
        8,
        CurrentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={TOPIC_ID: frozenset({0})},
            pending_revocation={TOPIC_ID: frozenset({1, 2})},
        ),
    ),
    "regex_value": (16, PatternValue(("xa", "xb"), 123, NOW)),
}
CONSUMER_KEYS = {
    "consumer_group_metadata_key": (3, "g", None),
    "partition_metadata_key": (4, "g", None),
    "member_metadata_key": (5, "g", "m"),
    "target_metadata_key": (6, "g", None),
    "target_member_key": (7, "g", "m"),
    "current_assignment_key": (8, "g", "m"),
    "regex_key": (16, "g", "x.*"),
}


def golden(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


def test_offset_key() -> None:
    assert encode_offset_key("g", "topic", 7) == golden("offset_commit_key")
    assert decode_offset_key(golden("offset_commit_key")) == OffsetKey("g", "topic", 7)


def test_offset_values_written() -> None:
    assert encode_offset_value(OffsetAndMetadata(42, 5, "", NOW)) == golden("offset_commit_value_v4_plain")
    with_topic = OffsetAndMetadata(42, 5, "méta", NOW, topic_id=TOPIC_ID)
    assert encode_offset_value(with_topic) == golden("offset_commit_value_v4")
    with_expiry = OffsetAndMetadata(42, -1, "méta", NOW, NOW + 100_000)
    assert encode_offset_value(with_expiry) == golden("offset_commit_value_v1")


@pytest.mark.parametrize("version", range(5))
def test_offset_values_read(version: int) -> None:
    assert decode_offset_value(golden(f"offset_commit_value_v{version}")) == OffsetAndMetadata(
        42,
        5 if version >= 3 else -1,
        "méta",
        NOW,
        NOW + 100_000 if version == 1 else -1,
        TOPIC_ID if version == 4 else None,
    )


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 20_000])
def test_offset_values_with_metadata_of_any_length(size: int) -> None:
    value = OffsetAndMetadata(42, 5, "m" * size, NOW)
    assert decode_offset_value(encode_offset_value(value)) == value


def test_offset_value_without_tags() -> None:
    assert decode_offset_value(golden("offset_commit_value_v4_plain")) == OffsetAndMetadata(42, 5, "", NOW)


def test_classic_group_written() -> None:
    assert encode_classic_group_key("grüppe") == golden("group_metadata_key")
    assert encode_classic_group_value(CLASSIC) == golden("group_metadata_value_v3")
    empty = ClassicGroupValue(
        protocol_type="", generation=0, protocol=None, leader=None, state_timestamp_ms=NOW
    )
    assert encode_classic_group_value(empty) == golden("group_metadata_value_empty")


@pytest.mark.parametrize("version", range(5))
def test_classic_group_read(version: int) -> None:
    group = decode_classic_group_value(golden(f"group_metadata_value_v{version}"))
    assert group.state_timestamp_ms == (NOW if version >= 2 else -1)
    assert (group.protocol_type, group.generation, group.protocol, group.leader) == (
        "consumer",
        3,
        "range",
        "m-1",
    )
    first, second = group.members
    assert first.group_instance_id == ("inst" if version >= 3 else None)
    assert first.rebalance_timeout_ms == (300000 if version >= 1 else -1)
    assert (first.subscription, first.assignment, first.session_timeout_ms) == (b"\1\2\3", b"\4\5", 45000)
    assert second == MEMBER_2


@pytest.mark.parametrize("name", CONSUMER_KEYS)
def test_consumer_keys(name: str) -> None:
    kind, group_id, member = CONSUMER_KEYS[name]
    assert consumer.encode_key(kind, group_id, member) == golden(name)
    key = consumer.decode_key(kind, golden(name))
    assert key == (kind, group_id, member or "")


@pytest.mark.parametrize("name", CONSUMER_VALUES)
def test_consumer_values(name: str) -> None:
    kind, value = CONSUMER_VALUES[name]
    assert consumer.encode_value(value) == golden(name)
    assert consumer.decode_value(kind, golden(name)) == value


def test_partition_counts_are_passed_over() -> None:
    assert consumer.decode_value(consumer.RecordKind.PARTITIONS, golden("partition_metadata_value")) is None


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(CorruptRecord, match="version 9"):
        decode_offset_value(b"\0\x09" + bytes(30))
    with pytest.raises(CorruptRecord, match="version 1"):
        consumer.decode_value(3, b"\0\1\0\0\0\0\0")


def test_unknown_tags_are_passed_over() -> None:
    with_tag = golden("consumer_group_metadata_value_plain")[:-1] + b"\x01\x07\x02hi"
    assert consumer.decode_value(3, with_tag) == GroupValue(11)


@given(
    st.builds(
        OffsetAndMetadata,
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        st.text(max_size=50),
        st.integers(-1, 2**63 - 1),
        st.just(-1),
        st.none(),
    )
)
def test_offsets_are_read_back(value: OffsetAndMetadata) -> None:
    assert decode_offset_value(encode_offset_value(value)) == value


@given(st.binary(max_size=40))
def test_offset_keys_of_any_bytes_are_read_or_corrupt(tail: bytes) -> None:
    try:
        key = decode_offset_key(b"\0\1" + tail)
    except CorruptRecord:
        return
    assert (b"\0\1" + tail).startswith(encode_offset_key(*key))


@given(st.sampled_from(sorted(GOLDEN)), st.data())
def test_short_bytes_are_corrupt_and_nothing_else(name: str, data: st.DataObject) -> None:
    if "value" not in name:
        return
    whole = golden(name)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(CorruptRecord):
        if name.startswith("offset"):
            decode_offset_value(cut)
        elif name.startswith("group"):
            decode_classic_group_value(cut)
        elif name.startswith("partition"):
            raise CorruptRecord("not read")
        else:
            kind = CONSUMER_VALUES[name][0]
            consumer.decode_value(kind, cut)


def test_null_arrays_and_bytes_are_read_as_empty_ones() -> None:
    nothing = golden("group_metadata_value_empty")
    assert decode_classic_group_value(nothing[:-4] + b"\xff\xff\xff\xff").members == ()
    assert consumer.decode_value(7, b"\0\0\0\0") == TargetValue({})


def test_a_length_below_null_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="members has the length -5"):
        decode_classic_group_value(golden("group_metadata_value_empty")[:-4] + b"\xff\xff\xff\xfb")


def test_an_array_longer_than_its_record_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="2147483647"):
        decode_classic_group_value(golden("group_metadata_value_empty")[:-4] + b"\x7f\xff\xff\xff")
