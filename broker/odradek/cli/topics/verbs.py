"""`odradek topics`: verbs that create, change and delete topics. `topic_views` has those that show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.completers import (
    complete_partition_numbers,
    complete_topic_assignments,
    complete_topic_keys,
    complete_topics,
)
from odradek.cli.shared.options import (
    CommandSession,
    Decorator,
    execute_options,
    parse_assignments,
    parse_partitions,
    session_options,
)
from odradek.cli.shared.output import failure_fields, print_errors, say, show_document, show_documents, warn

if TYPE_CHECKING:
    from odradek.client.admin.results import LogDirectoryDescription
    from odradek.client.client import Client
    from odradek.foundation.errors import OdradekError
    from odradek.foundation.ids import TopicPartition


VERBS = {
    "list": "odradek.cli.topics.topic_views:list_topics",
    "create": "odradek.cli.topics.verbs:create",
    "describe": "odradek.cli.topics.topic_views:describe",
    "alter": "odradek.cli.topics.verbs:alter",
    "delete": "odradek.cli.topics.verbs:delete",
    "offsets": "odradek.cli.topics.topic_records:offsets",
    "trim": "odradek.cli.topics.topic_records:trim",
    "elect-leaders": "odradek.cli.topics.verbs:elect_leaders",
}


def _config_option(help: str) -> Decorator:
    return click.option(
        "-c",
        "--config",
        "configs",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=complete_topic_assignments,
        help=help,
    )


@click.group(cls=LazyGroup, verbs=VERBS)
def topics() -> None:
    """List, create, describe, alter, trim and delete topics."""


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Default: the broker's num.partitions.")
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), help="Default: the broker's.")
@_config_option("May be repeated.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is not an error.")
@click.option("--validate-only", is_flag=True, help="Check, but create nothing.")
@session_options
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
    """Create topics.

    \b
    Examples:
      odradek topics create orders --partitions 6
      odradek topics create sessions --config cleanup.policy=compact --config segment.ms=3600000
      odradek topics create orders --if-not-exists
    """
    from odradek.client.admin.results import TopicSpec
    from odradek.client.admin.topics import TopicAdmin

    settings = parse_assignments(configs, option="--config")
    specs = [TopicSpec(name, partitions or -1, replication_factor or -1, configs=settings) for name in names]

    async def work(client: Client) -> tuple[Mapping[str, object], Mapping[str, LogDirectoryDescription]]:
        from odradek.client.admin.disks import find_refused_topics

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
    from odradek.cli.shared.disk_words import full_words

    for name, directory in full.items():
        warn(f"its records are refused until there is room: {full_words(directory)}", about=f"topic {name}")
    return ExitCode.DEGRADED if full else ExitCode.OK


def _report(
    session: CommandSession, outcome: Mapping[str, object], *, verb: str, exists_is_fine: bool = False
) -> int:
    """Print the result of each topic. Returns the exit code of the first that failed."""
    from odradek.cli.topics.deletions import TopicToDelete
    from odradek.foundation.errors import OdradekError, TopicAlreadyExists

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


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="The new total number of partitions.")
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="The new number of replicas of each partition.",
)
@_config_option("Set; may be repeated.")
@click.option(
    "--unset",
    multiple=True,
    metavar="KEY",
    shell_complete=complete_topic_keys,
    help="Back to the default; may be repeated.",
)
@session_options
def alter(
    session: CommandSession,
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
) -> int:
    """Give a topic more partitions, more or fewer replicas, or other settings. More partitions change the partition of
    a key: records of one key may then be in two partitions. New replicas count when they are in sync; `odradek reassign
    list` shows those that are not.

    \b
    Examples:
      odradek topics alter orders --partitions 12
      odradek topics alter orders --replication-factor 3
      odradek topics alter orders --config retention.ms=3600000 --unset segment.bytes
    """
    settings = parse_assignments(configs, option="--config")
    if not (partitions or replication_factor or settings or unset):
        raise click.UsageError(
            "nothing to alter: give --partitions, --replication-factor, --config or --unset"
        )

    async def work(client: Client) -> tuple[str | None, Mapping[str, LogDirectoryDescription]]:
        from odradek.client.admin.brokers import BrokerAdmin
        from odradek.client.admin.configs import ConfigAdmin
        from odradek.client.admin.disks import find_refused_topics
        from odradek.client.admin.results import AlterOperation, ConfigChange, ResourceType
        from odradek.client.admin.topics import TopicAdmin

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


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is not an error.")
@execute_options
@session_options
def delete(session: CommandSession, *, names: tuple[str, ...], if_exists: bool, execute: bool) -> int:
    """Delete topics with all their records.

    \b
    Examples:
      odradek topics delete orders
      odradek topics delete orders --execute
      odradek topics delete old-1 old-2 --if-exists --execute
    """
    from odradek.cli.topics.deletions import delete_topics, plan_deletions
    from odradek.foundation.errors import UnknownTopicOrPartition

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


@click.command("elect-leaders")
@click.argument("names", nargs=-1, metavar="[TOPIC…]", shell_complete=complete_topics)
@click.option(
    "--partition",
    "partitions",
    metavar="N[,N-M…]",
    shell_complete=complete_partition_numbers,
    help="Only these partitions of one topic.",
)
@click.option(
    "--unclean",
    is_flag=True,
    help="For a partition without a leader, elect any live replica: acknowledged records that it lacks are LOST. "
    "Only shows these partitions without --execute.",
)
@click.option("--execute", is_flag=True, help="Do it: for --unclean, since it may lose records.")
@session_options
def elect_leaders(
    session: CommandSession,
    *,
    names: tuple[str, ...],
    partitions: str | None,
    unclean: bool,
    execute: bool,
) -> int:
    """Elect the preferred leaders again, or with --unclean leaders of partitions that have none. Without names all
    topics are meant.

    \b
    Examples:
      odradek topics elect-leaders
      odradek topics elect-leaders orders --partition 0-3
      odradek topics elect-leaders orders --unclean --execute
    """
    numbers = None if partitions is None else parse_partitions(partitions)
    if numbers is not None and len(names) != 1:
        raise click.UsageError("--partition needs the name of one topic")

    is_planned = unclean and not execute

    async def work(client: Client) -> Mapping[TopicPartition, OdradekError | None]:
        from odradek.client.admin.reassignments import ReassignmentAdmin
        from odradek.client.metadata import NO_LEADER

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
    from odradek.foundation.errors import ElectionNotNeeded

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
