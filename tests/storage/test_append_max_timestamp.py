"""A client's batch whose max timestamp is unset is stored with the true one."""

from __future__ import annotations

from odradek.foundation.ids import TopicPartition
from odradek.storage.append_rules import AppendRules
from odradek.storage.config import LogConfig
from odradek.wire.records.batch import BatchView, set_max_timestamp, verify_header
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import records


def test_an_unset_max_timestamp_is_mended_for_clients() -> None:
    rules = AppendRules(LogConfig(), TopicPartition("topic", 0))
    batch = build_batch([(1000, None, b"v"), (1009, None, b"w")])
    whole = list(records(BatchView(batch)))
    set_max_timestamp(batch, 0, timestamp_ms=-1)
    header, stored = rules.admit(verify_header(batch), bytes(batch), is_client=True, now_ms=2000)
    assert header.max_timestamp_ms == 1009
    assert verify_header(stored) == header
    assert list(records(BatchView(stored))) == whole
    header, stored = rules.admit(verify_header(batch), batch, is_client=False, now_ms=2000)
    assert (header.max_timestamp_ms, stored) == (-1, batch)


def test_a_batch_with_its_max_timestamp_is_stored_as_it_came() -> None:
    rules = AppendRules(LogConfig(), TopicPartition("topic", 0))
    for times in ((1000, 1009), (1009, 1000), (-1, -1)):
        batch = build_batch([(time, None, b"v") for time in times])
        _, stored = rules.admit(verify_header(batch), batch, is_client=True, now_ms=2000)
        assert stored is batch
