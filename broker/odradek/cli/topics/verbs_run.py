"""Runs the verbs of `odradek topics` that create, change and delete topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.disk_words import full_words
from odradek.cli.shared.options import (
    CommandSession,
    parse_assignments,
    parse_partitions,
)
from odradek.cli.shared.output import failure_fields, print_errors, say, show_document, show_documents, warn
from odradek.cli.topics.deletions import TopicToDelete, delete_topics, plan_deletions
from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.disks import find_refused_topics
from odradek.client.admin.reassignments import ReassignmentAdmin
from odradek.client.admin.results import (
    AlterOperation,
    ConfigChange,
    LogDirectoryDescription,
    ResourceType,
    TopicSpec,
)
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import NO_LEADER
from odradek.foundation.errors import (
    ElectionNotNeeded,
    OdradekError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition


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
    return exit_code or _warn_of_full(full)


def _warn_of_full(full: Mapping[str, LogDirectoryDescription]) -> int:
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


def alter(
    session: CommandSession,
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
) -> int:
    settings = parse_assignments(configs, option="--config")
    if not (partitions or replication_factor or settings or unset):
        raise click.UsageError(
            "nothing to alter: give --partitions, --replication-factor, --config or --unset"
        )

    async def work(client: Client) -> tuple[str | None, Mapping[str, LogDirectoryDescription]]:
        changes = [ConfigChange(key, value) for key, value in settings.items()]
        changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in unset]
        warning = None
        if changes:
            warning = await ConfigAdmin(client).alter(ResourceType.TOPIC, name, changes)
        if partitions:
            await TopicAdmin(client).create_partitions(name, total=partitions)
        if replication_factor:
            admin = BrokerAdmin(client)
            await admin.execute(await admin.plan_factor([name], factor=replication_factor))
        return warning, await find_refused_topics(client, [name]) if partitions else {}

    warning, full = session.run(work)
    warn(warning, about=f"topic {name}")
    say(session.output, f"altered  {name}", {"topic": name, "result": "altered"})
    return _warn_of_full(full)


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
        click.echo("dry run: nothing was deleted; add --execute to do it", err=True)
    return exit_code


def elect_leaders(
    session: CommandSession,
    *,
    names: tuple[str, ...],
    partitions: str | None,
    unclean: bool,
    execute: bool,
) -> int:
    numbers = None if partitions is None else parse_partitions(partitions)
    if numbers is not None and len(names) != 1:
        raise click.UsageError("--partition needs the name of one topic")

    is_planned = unclean and not execute

    async def work(client: Client) -> Mapping[TopicPartition, OdradekError | None]:
        admin = ReassignmentAdmin(client)
        if not names and not is_planned:
            return await admin.elect_leaders(unclean=unclean)
        cluster = await client.with_retries(lambda: client.refresh(names or None))
        wanted = [key for name in names or cluster.topics for key in cluster.partitions(name, numbers)]
        if is_planned:
            return dict.fromkeys(key for key in wanted if cluster.leader(key) == NO_LEADER)
        return await admin.elect_leaders(wanted, unclean=unclean)

    outcome = session.run(work)
    if is_planned and outcome:
        click.echo("dry run: no leader was elected; add --execute to do it", err=True)
    return _report_elections(session, outcome, done="would be elected" if is_planned else "elected")


def _report_elections(
    session: CommandSession, outcome: Mapping[TopicPartition, OdradekError | None], *, done: str
) -> int:
    exit_code: int = ExitCode.OK
    documents: list[dict[str, object]] = []
    for where, failure in sorted(outcome.items()):
        result = done
        if isinstance(failure, ElectionNotNeeded):
            result = "not needed"
        elif failure is not None:
            result = str(failure)
            exit_code = exit_code or exit_code_for(failure)
        documents.append({"topic": where.topic, "partition": where.partition, "result": result})
    show_documents(
        session.output,
        ("topic", "partition", "result"),
        documents,
        empty="no partition needs an election",
    )
    return exit_code
