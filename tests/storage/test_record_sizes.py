"""max.decompressed.message.bytes: the largest record of a compressed batch that a client may write."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import InvalidRecord
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turn_limits import BATCH_BYTES_CHECKED_AT_ONCE_MAX
from odradek.storage.append_rules import AppendRules, LongWork
from odradek.storage.config import LogConfig
from odradek.wire.records.batch import verify_header
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression

LIMITED = AppendRules(LogConfig(max_decompressed_message_bytes=1000), TopicPartition("t", 0))
NOW_MS = 1_000_000
BESIDE_VALUE = 7  # of a record with a value of these sizes, its length left out


def admit(rules: AppendRules, *values: int, codec: Compression, is_client: bool = True) -> None:
    batch = bytes(build_batch([(NOW_MS, None, b"x" * size) for size in values], compression=codec))
    rules.admit_at_once(verify_header(batch), batch, is_client=is_client, now_ms=NOW_MS)


@pytest.mark.parametrize("codec", [one for one in Compression if one is not Compression.NONE])
def test_a_larger_record_is_refused(codec: Compression) -> None:
    admit(LIMITED, 10, 1000 - BESIDE_VALUE, codec=codec)
    with pytest.raises(InvalidRecord, match="record 1 of the batch is larger than the 1000 bytes"):
        admit(LIMITED, 10, 1001 - BESIDE_VALUE, codec=codec)


def test_what_is_not_compressed_or_is_the_brokers_own_is_not_looked_at() -> None:
    admit(LIMITED, 5000, codec=Compression.NONE)
    admit(LIMITED, 5000, codec=Compression.GZIP, is_client=False)
    admit(AppendRules(LogConfig(), TopicPartition("t", 0)), 5000, codec=Compression.GZIP)


def test_a_batch_that_grows_is_read_in_a_thread() -> None:
    with pytest.raises(LongWork) as held:
        admit(LIMITED, BATCH_BYTES_CHECKED_AT_ONCE_MAX + 1, codec=Compression.GZIP)
    with pytest.raises(InvalidRecord):
        held.value.work()
