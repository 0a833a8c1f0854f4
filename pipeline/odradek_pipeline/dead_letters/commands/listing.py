"""`dead-letters list`: the newest dead letters, where they are from, and why they could not be read."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from odradek.client.client import Client
from odradek_pipeline.connection.session import connection_of
from odradek_pipeline.dead_letters.commands.settings import ListSettings
from odradek_pipeline.dead_letters.reading import Found, ask_brokers, read_letter_log, scan_letters
from odradek_pipeline.work.command import Console, Summary


def run(settings: ListSettings, console: Console) -> Summary:
    """Counts of all letters, and rows of the newest. Raises PipelineError."""
    newest: deque[Found] = deque(maxlen=settings.count)
    counts: Counter[str] = Counter()

    async def work(client: Client) -> None:
        async for one in scan_letters(client, await read_letter_log(client, settings.letters.topic)):
            newest.append(one)
            counts.update([_state(one, settings.letters.attempts_max)])

    ask_brokers(
        connection_of(None, settings.brokers.client_settings()).settings, settings.letters.topic, work
    )
    facts = {
        "topic": settings.letters.topic,
        "letters": counts.total() - counts["other"],
        **{name: counts[name] for name in ("waiting", "exhausted", "handled", "repeated")},
        "other_records": counts["other"],
    }
    rows = [_row(one, settings.letters.attempts_max) for one in reversed(newest)]
    title = f"{settings.letters.topic}: {facts['letters']} dead letters, newest first"
    return Summary(title, facts, rows, rows_name="newest")


def _state(one: Found, attempts_max: int) -> str:
    if one.letter is None:
        return "other"
    if one.is_repeated:
        return "repeated"
    if one.letter.origin.attempt >= attempts_max:
        return "exhausted"
    return "waiting" if one.is_waiting else "handled"


def _row(one: Found, attempts_max: int) -> dict[str, Any]:
    place = {"letter": f"{one.partition.partition}:{one.record.offset}", "state": _state(one, attempts_max)}
    if one.letter is None:
        return {**place, "origin": None, "attempt": None, "error": None, "schema": None, "run": None}
    origin = one.letter.origin
    return {
        **place,
        "origin": f"{origin.topic}-{origin.partition} offset {origin.offset}",
        "attempt": origin.attempt,
        "error": one.letter.error,
        "schema": one.letter.schema,
        "run": one.letter.run,
    }
