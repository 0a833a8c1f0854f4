"""A member of the queue with the product's own client: `python -m tests.queues.own_member OPTIONS`, a JSON object.

It ends cleanly when its standard input ends. With `commits` it waits for its answers' response after each poll; else
they go with the next fetch.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from odradek.client.share.deliveries import Acknowledgement
from odradek.client.share.sessions import ShareBounds
from odradek.client.share.share_consumer import ShareConsumer
from odradek.foundation.errors import InvalidRecordState, OdradekError
from odradek.foundation.ids import TopicPartition
from tests.chaos.client_process import client_of
from tests.queues.member_log import Delivered, MemberLog, choose_work_seconds, describe

REST_SECONDS: Final = 0.3


async def run(options: dict[str, Any]) -> None:
    log = MemberLog(Path(options["log"]))
    chance = random.Random(options["member"])

    def note_answers(key: TopicPartition, offsets: Collection[int], failure: OdradekError | None) -> None:
        log.note_answers(key.partition, offsets, "" if failure is None else describe(failure))

    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with (
        client_of(options, options["member"]) as client,
        ShareConsumer(
            client,
            options["group"],
            [options["topic"]],
            is_explicit=True,
            bounds=ShareBounds(records_max=options["records_max"], is_strict=options["is_strict"]),
            on_acknowledged=note_answers,
        ) as consumer,
    ):
        while not over.done():
            try:
                records = await consumer.poll(timeout_ms=500)
                if not records:
                    continue
                delivered = [
                    Delivered(one.partition, one.offset, one.delivery_count, one.value) for one in records
                ]
                log.note_poll(delivered)
                seconds = choose_work_seconds(chance, options["work_seconds"], len(records))
                await asyncio.wait([over], timeout=seconds)
                for record, told in zip(records, delivered, strict=True):
                    # The session may have ended since: then others have the record.
                    with suppress(InvalidRecordState):
                        consumer.acknowledge(record, Acknowledgement[told.answer.upper()])
                if options["commits"]:
                    await consumer.commit()
            except OdradekError as failure:
                log.note_failure(failure)
                await asyncio.wait([over], timeout=REST_SECONDS)


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
