"""Runs the verbs of `odradek topics` that create, change and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.disk_words import full_words
from odradek.cli.shared.options import (
    CommandSession,
    parse_assignments,
)
from odradek.cli.shared.output import count, failure_fields, print_errors, say_dry_run, show_document, warn
from odradek.client.admin.disks import find_refused_topics
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.results import (
    LogDirectoryDescription,
    TopicSpec,
)
from odradek.client.suggestions import with_suggestions
from odradek.foundation.errors import (
    OdradekError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)


def create(
    session: CommandSession,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
) -> int:
    settings = parse_assignments(configs, option="--config")
    specs = [TopicSpec(name, partitions or -1, replication_factor or -1, configs=settings) for name in names]

    async def work(client: Client) -> tuple[Mapping[str, object], Mapping[str, LogDirectoryDescription]]:
        outcome = await TopicAdmin(client).create_many(specs, validate_only=validate_only)
        created = [name for name, result in outcome.items() if not isinstance(result, Exception)]
        full = {} if validate_only else await find_refused_topics(client, created)
        return outcome, full

    outcome, full = session.run(work)
    verb = "valid" if validate_only else "created"
    exit_code = _report(session, outcome, verb=verb, exists_is_fine=if_not_exists)
    return exit_code or warn_of_full(full)


def warn_of_full(full: Mapping[str, LogDirectoryDescription]) -> int:
    """Warn of topics whose records a full disk refuses. Returns the exit code."""
    for name, directory in full.items():
        warn(f"its records are refused until there is room: {full_words(directory)}", about=f"topic {name}")
    return ExitCode.DEGRADED if full else ExitCode.OK


def _report(
    session: CommandSession, outcome: Mapping[str, object], *, verb: str, exists_is_fine: bool = False
) -> int:
    """Print the result of each topic. Returns the exit code of the first that failed."""
    exit_code: int = ExitCode.OK
    documents: list[dict[str, object]] = []
    failures: list[OdradekError] = []
    for name, result in outcome.items():
        is_there = exists_is_fine and isinstance(result, TopicAlreadyExists)
        if isinstance(result, OdradekError) and not is_there:
            exit_code = exit_code or exit_code_for(result)
            documents.append({"topic": name, "result": "failed", **failure_fields(result)})
            failures.append(result)
            continue
        figures = asdict(result) if isinstance(result, TopicToDelete) else {}
        documents.append({"topic": name, "result": "exists" if is_there else verb, **figures})
        warn(getattr(result, "warning", None), about=f"topic {name}")
        if not session.is_json:
            tail = f": {result}" if isinstance(result, TopicToDelete) else ""
            click.echo(f"exists   {name}" if is_there else f"{verb}  {name}{tail}")
    print_errors(failures)
    show_document(session.output, documents)
    return exit_code


def delete(session: CommandSession, *, names: tuple[str, ...], if_exists: bool, execute: bool) -> int:
    outcome: Mapping[str, object] = session.run(
        lambda client: delete_topics(client, names) if execute else plan_deletions(client, names)
    )
    if if_exists:
        outcome = {
            name: None if isinstance(result, UnknownTopicOrPartition) else result
            for name, result in outcome.items()
        }
    exit_code = _report(session, outcome, verb="deleted" if execute else "would delete")
    if not execute:
        say_dry_run("deleted", is_empty=all(isinstance(one, OdradekError) for one in outcome.values()))
    return exit_code


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """The size of a topic. `records` counts offsets, which may have gaps, of the partitions that answer."""

    partitions: int
    records: int

    def __str__(self) -> str:
        return f"{count(self.partitions, 'partition')} with {count(self.records, 'record')}"


async def plan_deletions(client: Client, names: Sequence[str]) -> dict[str, TopicToDelete | OdradekError]:
    """The size of each topic, or the error for its name."""
    cluster = await client.with_retries(lambda: client.refresh(names))
    logs = LogAdmin(client)
    found: dict[str, TopicToDelete | OdradekError] = {}
    for name in dict.fromkeys(names):
        try:
            keys = cluster.partitions(name)
        except OdradekError as failure:
            found[name] = failure
            continue
        first, end = await logs.known_offsets_at(keys, EARLIEST), await logs.known_offsets_at(keys, LATEST)
        records = sum(end[key] - first[key] for key in keys if key in first and key in end)
        found[name] = TopicToDelete(len(keys), records)
    return found | await _add_suggestions(client, found)


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, OdradekError | None]:
    """None for each topic that is deleted, or the error for its name."""
    outcome = await TopicAdmin(client).delete_many(names)
    return outcome | await _add_suggestions(client, outcome)


async def _add_suggestions(client: Client, outcome: Mapping[str, object]) -> dict[str, OdradekError]:
    """The errors, with the names that are near."""
    failures = {name: one for name, one in outcome.items() if isinstance(one, OdradekError)}
    return dict(zip(failures, await with_suggestions(client, list(failures.values())), strict=True))
