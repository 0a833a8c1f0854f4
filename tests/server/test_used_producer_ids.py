"""The producer ids that another broker has used: each that a transactional id names counts."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.process.kraft_metadata import KraftMetadata
from odradek.broker.process.log_adoption import highest_producer_id
from odradek.broker.transactions.metadata import TV2, TransactionMetadata, TransactionState
from odradek.broker.transactions.schema import encode_key, encode_value
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.logs import open_log


@pytest.mark.parametrize("ids", [(99, 7, 8), (7, 99, 8), (7, 8, 99)])
def test_all_producer_ids_of_a_transactional_id_count(ids: tuple[int, int, int]) -> None:
    present, previous, following = ids
    metadata = TransactionMetadata(
        producer_id=present,
        previous_producer_id=previous,
        next_producer_id=following,
        producer_epoch=0,
        timeout_ms=1000,
        state=TransactionState.EMPTY,
        updated_ms=0,
    )
    value = encode_value(metadata, version_level=TV2)
    log = open_log(SimulatedDisk())
    log.append(build_batch([(1000, encode_key("a"), value)]), leader_epoch=0)
    assert asyncio.run(highest_producer_id({TRANSACTION_STATE: [log]}, KraftMetadata())) == 99
