"""`audit collect`: counts of all tiers, compared by window; verdicts and `complete_until` as tables."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek_pipeline.audit.commands.settings import (
    AuditSettings,
    LetterTopicSettings,
    TableSettings,
    open_folder,
    watermark_row,
)
from odradek_pipeline.errors import JobRefusedError, RecreatedError
from odradek_pipeline.runs.positions import time_ms
from odradek_pipeline.runs.steps import CONNECTED, FINISHED
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.settings.durations import duration_ms
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    Command,
    Console,
    ReportSettings,
    Summary,
)

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek_pipeline.audit.collecting.letters import Letters
    from odradek_pipeline.audit.state import AuditState, TopicState


@dataclass(frozen=True, kw_only=True)
class CollectSettings(
    BrokerConnectionSettings, TableSettings, LetterTopicSettings, AuditSettings, ReportSettings
):
    """The settings of `audit collect`."""

    topic: tuple[str, ...] = setting("A topic to audit. May be repeated.", metavar="NAME")
    lateness: str = setting(
        "How long after its end a window may wait for a tier. Then it is missing, duplicated, changed or stalled.",
        default="10m",
        metavar="DURATION",
    )
    since: str | None = setting(
        "Where the audit begins; without it, with the first window that a producer reported.",
        default=None,
        metavar="TIME",
    )
    keep: str = setting(
        "How long windows that passed are remembered. What comes for older ones is not judged.",
        default="7d",
        metavar="DURATION",
    )
    mirror_bootstrap: str | None = setting(
        "The brokers of a cluster that mirrors the topics: they are compared as the tier `mirrored`.",
        default=None,
        metavar="HOST:PORT,…",
    )
    mirror_prefix: str = setting("What a topic's name has before it there.", default="", metavar="TEXT")
    audit_topic: str = setting("Where producers report.", default="__odradek_audit", metavar="NAME")
    on_recreated: str = setting(
        "What to do when a topic was deleted and made again: fail, or start again with the new one.",
        default="fail",
        choices=("fail", "start-again"),
    )


def run(settings: CollectSettings, console: Console) -> Summary:
    """Collect, judge and publish. Raises PipelineError."""
    from odradek_pipeline.audit.judging import forget, judge_topic
    from odradek_pipeline.audit.state import AuditState
    from odradek_pipeline.work.worker import now_ms

    keep_ms = duration_ms(settings.keep, "--keep")
    with open_folder(settings.audit, settings, console) as folder:
        state = folder.read_newest() or AuditState()
        figures, letters = asyncio.run(_collect(settings, state, console))
        topics = [state.topics[name] for name in dict.fromkeys(settings.topic) if name in state.topics]
        if settings.output:
            figures["loaded"] = _count_table(settings, topics, letters, console)
        for one in topics:
            judge_topic(state, one.topic, now_ms())
            forget(state, one.topic, keep_ms)
        folder.commit(state, now_ms())
    console.steps(FINISHED)
    facts = {"audit": settings.audit, "version": state.version, **figures}
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
    from odradek_pipeline.audit.collecting.log_counts import count_log, require_countable
    from odradek_pipeline.audit.collecting.reports import read_reports
    from odradek_pipeline.connection.clients import connect_client
    from odradek_pipeline.connection.session import connection_of

    connection = connection_of(None, settings.client_settings())
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
        letters = await settings.read_letters(client, settings.topic) if settings.output else {}
    if settings.mirror_bootstrap is None:
        return figures, letters
    mirror = connection_of(
        None, {**settings.client_settings(), "bootstrap.servers": settings.mirror_bootstrap}
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
    from odradek_pipeline.audit.state import TierState, TopicState

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
    known.lateness_ms = duration_ms(settings.lateness, "--lateness")
    known.since_ms = max(known.since_ms, since_ms)
    return known


async def _count_mirror(
    client: Client, settings: CollectSettings, known: TopicState, console: Console
) -> int:
    from odradek_pipeline.audit.collecting.log_counts import count_log, require_countable
    from odradek_pipeline.audit.state import TierState

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
    from odradek_pipeline.audit.collecting.letters import count_letters
    from odradek_pipeline.audit.collecting.table_counts import count_table
    from odradek_pipeline.audit.collecting.table_spans import read_row_spans
    from odradek_pipeline.audit.state import TierState
    from odradek_pipeline.outputs.named import open_output
    from odradek_pipeline.work.worker import open_run_session

    count = 0
    with open_run_session(settings, console) as spark:
        output = open_output(spark, settings.format, settings.output)
        known, rows = output.read_newest(), output.read_rows()
        if known.snapshots:
            raise JobRefusedError(
                f"{settings.output} has the last value of each key alone: it is no loaded tier"
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


COMMAND = Command(
    "audit collect", "Compare what was produced with each later tier, by window.", CollectSettings, run
)
