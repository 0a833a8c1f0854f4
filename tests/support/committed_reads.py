"""What a reader of committed records keeps of a log."""

from __future__ import annotations

from odradek.log.log import Log
from odradek.records.control import parse_marker
from odradek.records.record import records
from tests.support.logs import stored_batches


def visible_offsets(log: Log) -> list[int]:
    """Offsets of the records, found as Java's consumer does: aborts by first offset, ended by markers."""
    stable = log.producers.transactions.last_stable_offset(high_watermark=log.log_end_offset)
    to_come = sorted(log.aborted_transactions(log.log_start_offset, stable), key=lambda one: one.first_offset)
    aborting: set[int] = set()
    found = []
    for batch in stored_batches(log):
        header = batch.header
        while to_come and to_come[0].first_offset <= header.last_offset:
            aborting.add(to_come.pop(0).producer_id)
        if header.is_control:
            marker = parse_marker(batch)
            if marker is not None and not marker.is_commit:
                aborting.discard(marker.producer_id)
        elif header.base_offset < stable and not (header.is_transactional and header.producer_id in aborting):
            found += [one.offset for one in records(batch)]
    return found
