"""`dead-letters list`: the newest dead letters, where they are from, and why they could not be read."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek_pipeline.dead_letters.commands.settings import LetterSettings
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    Command,
    Console,
    ReportSettings,
    Summary,
)

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek_pipeline.dead_letters.reading import Found


@dataclass(frozen=True, kw_only=True)
class ListSettings(LetterSettings, BrokerConnectionSettings, ReportSettings):
    """The settings of `dead-letters list`."""

    count: int = setting("How many letters to show, the newest ones.", default=20, at_least=0)


def run(settings: ListSettings, console: Console) -> Summary:
    """Counts of all letters, and rows of the newest. Raises PipelineError."""
    from odradek_pipeline.connection.session import connection_of
    from odradek_pipeline.dead_letters.reading import ask_brokers, read_letter_log, scan_letters

    newest: deque[Found] = deque(maxlen=settings.count)
    counts: Counter[str] = Counter()

    async def work(client: Client) -> None:
        async for one in scan_letters(client, await read_letter_log(client, settings.topic)):
            newest.append(one)
            counts.update([_state(one, settings.attempts_max)])

    ask_brokers(connection_of(None, settings.client_settings()).settings, settings.topic, work)
    facts = {
        "topic": settings.topic,
        "letters": counts.total() - counts["other"],
        **{name: counts[name] for name in ("waiting", "exhausted", "handled", "repeated")},
        "other_records": counts["other"],
    }
    rows = [_row(one, settings.attempts_max) for one in reversed(newest)]
    title = f"{settings.topic}: {facts['letters']} dead letters, newest first"
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


COMMAND = Command(
    "dead-letters list", "Show dead letters: where they are from, and why they are here.", ListSettings, run
)
