"""Runs `odradek topics alter` and `elect-leaders`, which need more of the client than the other verbs."""

from __future__ import annotations

from collections.abc import Mapping

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.options import (
    CommandSession,
    parse_assignments,
    parse_partitions,
)
from odradek.cli.shared.output import say, show_documents, warn
from odradek.cli.topics.known_keys import require_known_keys
from odradek.cli.topics.verbs_run import warn_of_full
from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.disks import find_refused_topics
from odradek.client.admin.reassignments import ReassignmentAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import NO_LEADER
from odradek.client.results import (
    AlterOperation,
    ConfigChange,
    LogDirectoryDescription,
    ResourceType,
)
from odradek.foundation.errors import (
    ElectionNotNeeded,
    OdradekError,
)
from odradek.foundation.ids import TopicPartition


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
        if unset:
            await require_known_keys(client, ResourceType.TOPIC, name, unset)
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
    return warn_of_full(full)


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
