"""Removes what a sink that is not used any more has left: open transactions and markers.

Transactional ids need no removal: the coordinator forgets them after `transactional.id.expiration.ms`, a week.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.client import Client
from odradek.client.producer.handover import start_epoch
from odradek.client.producer.producer import Producer
from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.sink.driver import open_ids
from odradek_pipeline.sink.markers import MarkerState, read_on
from odradek_pipeline.sink.settings import SinkSettings, parse_options

_TIMEOUT_MS = 60_000


def clean_up(options: Mapping[str, str]) -> int:
    """Abort the open transactions of a sink and remove its markers; the number of both.

    `options` are the sink's: `sinkId`, or `checkpointLocation` as the stream had it. A stream that is started again
    from that checkpoint writes the batch again that it was in. Raises OptionError.
    """
    settings = SinkSettings.of(options, is_stream=True)
    with ClientLoop(parse_options(options)) as loop:
        return loop.run(_clean_up(loop.client, settings))


async def _clean_up(client: Client, settings: SinkSettings) -> int:
    names = await open_ids(client, settings.sink)
    for name in names:
        await start_epoch(client, name, timeout_ms=_TIMEOUT_MS)
    markers = MarkerState.empty(settings.sink, settings.marker_topic)
    await read_on(client, markers)
    topic, partition = markers.partition
    async with Producer(client) as producer:
        for name in markers.committed:
            await producer.send(topic, None, key=markers.key(name), partition=partition)
    return len(names) + len(markers.committed)
