"""`audit collect`: counts of all tiers, compared by window; verdicts and `complete_until` as tables."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from odradek.client.client import Client
from odradek_pipeline.audit.collecting.letters import Letters, count_letters, read_letters
from odradek_pipeline.audit.collecting.log_counts import count_log, require_countable
from odradek_pipeline.audit.collecting.reports import read_reports
from odradek_pipeline.audit.collecting.table_rows import count_table, read_row_spans
from odradek_pipeline.audit.collecting.tables import open_folder
from odradek_pipeline.audit.commands.settings import CollectSettings
from odradek_pipeline.audit.judging import forget, judge_topic
from odradek_pipeline.audit.state import AuditState, TierState, TopicState
from odradek_pipeline.audit.watermarks import watermark_row
from odradek_pipeline.connection.clients import connect_client
from odradek_pipeline.connection.session import connection_of
from odradek_pipeline.errors import JobRefusedError, RecreatedError
from odradek_pipeline.runs.positions import time_ms
from odradek_pipeline.runs.steps import CONNECTED, FINISHED
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import now_ms, open_table


def run(settings: CollectSettings, console: Console) -> Summary:
    """Collect, judge and publish. Raises PipelineError."""
    with open_folder(settings.folder.audit, settings.spark, console) as folder:
        state = folder.read_newest() or AuditState()
        figures, letters = asyncio.run(_collect(settings, state, console))
        topics = [state.topics[name] for name in dict.fromkeys(settings.topic) if name in state.topics]
        if settings.table.output:
            figures["loaded"] = _count_table(settings, topics, letters, console)
        for one in topics:
            judge_topic(state, one.topic, now_ms())
            forget(state, one.topic, settings.keep_ms)
        folder.commit(state, now_ms())
    console.steps(FINISHED)
    facts = {"audit": settings.folder.audit, "version": state.version, **figures}
    rows = [
        {**watermark_row(one.topic, tier, mark), "verdicts": _count_words(one, tier)}
        for one in topics
        for tier, mark in one.watermarks.items()
    ]
    title = f"audit of {', '.join(settings.topic)}: version {state.version}"
    return Summary(title, facts, rows, rows_name="watermarks")


async def _collect(
    settings: CollectSettings, state: AuditState, console: Console
) -> tuple[dict[str, Any], Letters]:
    """Read the reports, then the logs: what was reported was acknowledged before, so the logs have it."""
    connection = connection_of(None, settings.brokers.client_settings())
    figures: dict[str, Any] = {"reports": 0, "stored": 0}
    audited: list[TopicState] = []
    async with connect_client(connection.settings, "the audit cannot be collected") as client:
        for name in dict.fromkeys(settings.topic):
            await require_countable(client, name)
        figures["reports"] = await read_reports(client, settings.audit_topic, state, console.notice)
        console.steps(CONNECTED, topics=len(settings.topic), reports=figures["reports"])
        for name in dict.fromkeys(settings.topic):
            known = await _settle_topic_state(client, settings, state, name)
            if known is None:
                console.notice(f"no producer reports counts of {name!r} yet, so there is nothing to compare")
                continue
            audited.append(known)
            figures["stored"] += await count_log(
                client, known.tiers["stored"], known.window_ms, console.notice
            )
        letters = (
            await read_letters(client, settings.letters.dead_letter_topic, settings.topic)
            if settings.table.output
            else {}
        )
    if settings.mirror_bootstrap is None:
        return figures, letters
    mirror = connection_of(
        None, {**settings.brokers.client_settings(), "bootstrap.servers": settings.mirror_bootstrap}
    )
    figures["mirrored"] = 0
    async with connect_client(mirror.settings, "the mirror cannot be counted") as client:
        for known in audited:
            figures["mirrored"] += await _count_mirror(client, settings, known, console)
    return figures, letters


async def _settle_topic_state(
    client: Client, settings: CollectSettings, state: AuditState, name: str
) -> TopicState | None:
    """The state of a topic, begun where it is new. None while no producer reports it."""
    widths = state.reports.windows_ms.get(name, set())
    if not widths:
        return None
    if len(widths) > 1:
        raise JobRefusedError(
            f"producers of {name!r} report windows of {' and '.join(map(str, sorted(widths)))} ms: "
            "give all of them the same window_ms, and another audit topic"
        )
    cluster = await client.topics((name,))
    topic_id, known = str(cluster.topic(name).id), state.topics.get(name)
    since_ms = -1 if settings.since is None else time_ms(settings.since)
    if known is not None and known.topic_id != topic_id:
        if settings.on_recreated == "fail":
            raise RecreatedError(
                f"topic {name!r} has id {topic_id}, and the audit knows {known.topic_id}: it was made again. "
                "Use --on-recreated start-again, or another --audit folder"
            )
        marks, known = known.watermarks, None
    else:
        marks = {}
    if known is None:
        known = state.topics[name] = TopicState(
            name, topic_id, cluster.cluster_id, min(widths), 0, since_ms, watermarks=marks
        )
        known.tiers["stored"] = TierState(name, topic_id, cluster.cluster_id)
    known.lateness_ms = settings.lateness_ms
    known.since_ms = max(known.since_ms, since_ms)
    return known


async def _count_mirror(
    client: Client, settings: CollectSettings, known: TopicState, console: Console
) -> int:
    name = settings.mirror_prefix + known.topic
    await require_countable(client, name)
    cluster = await client.topics((name,))
    topic_id = str(cluster.topic(name).id)
    tier = known.tiers.get("mirrored")
    if tier is None or tier.topic_id != topic_id:
        tier = known.tiers["mirrored"] = TierState(name, topic_id, cluster.cluster_id)
    return await count_log(client, tier, known.window_ms, console.notice)


def _count_table(
    settings: CollectSettings, topics: list[TopicState], letters: Letters, console: Console
) -> int:
    """Count the table's rows of each topic, up to where the table's own record says it has read."""
    count = 0
    with open_table(settings, console) as output:
        known, rows = output.read_newest(), output.read_rows()
        if known.snapshots:
            raise JobRefusedError(
                f"{settings.table.output} has the last value of each key alone: it is no loaded tier"
            )
        for one in topics:
            tier = one.tiers["loaded"] = TierState(one.topic, one.topic_id, one.cluster_id)
            held = known.holdings.topics.get(one.topic)
            if held is not None and held.topic_id == one.topic_id:
                tier.positions = {number: end for number, (_, end) in held.partitions.items()}
            if rows is not None:
                count += count_table(rows, tier, one.window_ms, one.since_ms)
            if rows is not None and any(origin.topic_id == one.topic_id for origin in letters):
                spans = read_row_spans(rows.where(rows.topic == one.topic))[0]
                by_number = {
                    key.partition: found for key, found in spans.items() if key.topic_id == one.topic_id
                }
                count += count_letters(tier.counts, letters, one.topic_id, by_number, one.window_ms)
    return count


def _count_words(topic: TopicState, tier: str) -> str:
    found = Counter(one.word for one in topic.verdicts.get(tier, {}).values())
    return ", ".join(f"{count} {word}" for word, count in sorted(found.items()))
