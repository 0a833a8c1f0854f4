"""Mirrors, as the cluster that they write to shows them: heartbeats of flows, and positions of groups from elsewhere.

A mirror writes to topics of MirrorMaker 2's names and formats, so its mirrors are seen, too. A heartbeat that was
copied with a cluster's records says how old its data is here. The names are those of the default policy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.console.documents import Document, RowsWanted, page_of
from odradek.console.shared_facts import Known
from odradek.foundation.console_limits import (
    CONSOLE_MIRROR_OFFSETS_MAX,
    CONSOLE_MIRROR_TOPICS_MAX,
    CONSOLE_PAGE_SECONDS_MAX,
)
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.mirror.formats import Checkpoint, Heartbeat, parse_checkpoint, parse_heartbeat
from odradek.mirror.naming import ReplicationPolicy, is_heartbeats
from odradek.mirror.topic_tail import tail

_POLICY = ReplicationPolicy()
_CHECKPOINTS_SUFFIX = _POLICY.checkpoints_topic("")


class FlowBeat(NamedTuple):
    """The newest heartbeat of a flow in one topic. `came_from` is the cluster that it was copied from, or None."""

    beat: Heartbeat
    came_from: str | None


class CarriedPosition(NamedTuple):
    """Where a group of a source can continue here."""

    source: str
    checkpoint: Checkpoint
    written_ms: int


class MirrorsFact(NamedTuple):
    """What mirrors have written here. `unread` are topics that could not be read, and why."""

    flows: Sequence[FlowBeat]
    positions: Sequence[CarriedPosition]
    unread: Sequence[tuple[str, str]]


async def list_mirrors(client: Client) -> MirrorsFact:
    """The newest of each flow and of each position. Raises ConnectionFailed, …"""
    cluster = await client.with_retries(lambda: client.refresh(None))
    beats: dict[tuple[str, str, str | None], FlowBeat] = {}
    positions: dict[tuple[str, bytes], CarriedPosition] = {}
    unread: list[tuple[str, str]] = []
    for topic in [one for one in sorted(cluster.topics) if _is_of_mirrors(one)][:CONSOLE_MIRROR_TOPICS_MAX]:
        try:
            records = await _read(client, topic)
        except (OdradekError, OSError) as failure:
            unread.append((topic, str(failure) or type(failure).__name__))
            continue
        if topic.endswith(_CHECKPOINTS_SUFFIX):
            source = topic.removesuffix(_CHECKPOINTS_SUFFIX)
            positions |= {
                (source, bytes(one.key or b"")): found
                for one in records
                if (found := _read_position(source, one))
            }
        else:
            came_from = _POLICY.source_alias(topic)
            for one in records:
                if (beat := _read_beat(one)) is not None:
                    beats[beat.source_alias, beat.target_alias, came_from] = FlowBeat(beat, came_from)
    return MirrorsFact(list(beats.values()), list(positions.values()), unread)


def _is_of_mirrors(topic: str) -> bool:
    return topic.endswith(_CHECKPOINTS_SUFFIX) or is_heartbeats(_POLICY, topic)


async def _read(client: Client, topic: str) -> list[ConsumerRecord]:
    """The newest records of a topic, in the order of each partition."""
    async with asyncio.timeout(CONSOLE_PAGE_SECONDS_MAX):
        return [
            one async for some in tail(client, topic, offsets_max=CONSOLE_MIRROR_OFFSETS_MAX) for one in some
        ]


def _read_beat(record: ConsumerRecord) -> Heartbeat | None:
    """The heartbeat; None for a record of another program in a topic of that name."""
    try:
        return parse_heartbeat(record.key or b"", record.value or b"")
    except InvalidRequest:
        return None


def _read_position(source: str, record: ConsumerRecord) -> CarriedPosition | None:
    try:
        found = parse_checkpoint(record.key or b"", record.value or b"")
    except InvalidRequest:
        return None
    return CarriedPosition(source, found, record.timestamp_ms)


def mirrors_document(known: Known[MirrorsFact], wanted: RowsWanted) -> Document:
    """The flows, the newest heartbeat first, and what could not be read."""
    fact = known.value
    flows = sorted(fact.flows, key=lambda one: -one.beat.timestamp_ms)
    return {
        "asked_ms": known.asked_ms,
        "unread": [{"topic": topic, "why": why} for topic, why in fact.unread],
        **page_of(flows, wanted, _flow_row),
    }


def _flow_row(flow: FlowBeat) -> Document:
    return {
        "source": flow.beat.source_alias,
        "target": flow.beat.target_alias,
        "came_from": flow.came_from,
        "beat_ms": flow.beat.timestamp_ms,
    }


def positions_document(known: Known[MirrorsFact], wanted: RowsWanted) -> Document:
    """The positions of groups that were carried here, by the name of the group."""
    found = [one for one in known.value.positions if wanted.text.lower() in one.checkpoint.group_id.lower()]
    found.sort(key=lambda one: (one.checkpoint.group_id, one.source, one.checkpoint.partition))
    return {"asked_ms": known.asked_ms, **page_of(found, wanted, _position_row)}


def _position_row(position: CarriedPosition) -> Document:
    group, (topic, partition), at_source, here, _ = position.checkpoint
    return {
        "source": position.source,
        "group": group,
        "topic": topic,
        "partition": partition,
        "source_offset": at_source,
        "offset": here,
        "written_ms": position.written_ms,
    }
