"""Searches for the record of a time, some steps in each turn of the loop: a thread reads and opens batches."""

from __future__ import annotations

import asyncio

from odradek.broker.replication.blocking import BlockingWork
from odradek.storage.lookup import Search, TimestampOffset


async def run_search(search: Search, blocking: BlockingWork) -> TimestampOffset | None:
    """The outcome of a search. Raises as `LogReader.search_timestamp`."""
    found: TimestampOffset | None = None
    while True:
        try:
            opened = search.send(found)
        except StopIteration as end:
            result: TimestampOffset | None = end.value
            return result
        if opened is None:
            found = None
            await asyncio.sleep(0)
            continue
        try:
            found = await blocking.submit(opened.find)
        except Exception as error:
            # The search knows what a failure of the disk means.
            search.throw(error)
            raise
