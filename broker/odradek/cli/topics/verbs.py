"""`odradek topics`: verbs that create, change and delete topics. `topic_views` has those that show them."""

from __future__ import annotations

from collections.abc import Mapping
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
    parse_assignments,
    parse_partitions,
    session_options,
)
from odradek.cli.shared.output import failure_fields, print_error, say, show_document, show_documents, warn

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek.foundation.errors import OdradekError
    from odradek.foundation.ids import TopicPartition

_NO_SUCH_TOPIC = "there is no topic '{}'; `odradek topics list` lists all topics"


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
    outcome = session.run(lambda client: TopicAdmin(client).create_many(specs, validate_only=validate_only))
    verb = "valid" if validate_only else "created"
    return _report(session, outcome, verb=verb, exists_is_fine=if_not_exists)


def _report(
    session: CommandSession, outcome: Mapping[str, object], *, verb: str, exists_is_fine: bool = False
) -> int:
    """Print the result of each topic. Returns the exit code of the first that failed."""
    from odradek.foundation.errors import OdradekError, TopicAlreadyExists, UnknownTopicOrPartition

    exit_code: int = ExitCode.OK
    documents: list[dict[str, object]] = []
    for name, result in outcome.items():
        if isinstance(result, UnknownTopicOrPartition):
            result = UnknownTopicOrPartition(_NO_SUCH_TOPIC.format(name))
        is_there = exists_is_fine and isinstance(result, TopicAlreadyExists)
        if isinstance(result, OdradekError) and not is_there:
            exit_code = exit_code or exit_code_for(result)
            documents.append({"topic": name, "result": "failed", **failure_fields(result)})
            print_error(result)
            continue
        documents.append({"topic": name, "result": "exists" if is_there else verb})
        warn(getattr(result, "warning", None), about=f"topic {name}")
        if not session.is_json:
            click.echo(f"exists   {name}" if is_there else f"{verb}  {name}")
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
) -> None:
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

    async def work(client: Client) -> str | None:
        from odradek.client.admin.brokers import BrokerAdmin
        from odradek.client.admin.configs import ConfigAdmin
        from odradek.client.admin.results import AlterOperation, ConfigChange, ResourceType
        from odradek.client.admin.topics import TopicAdmin
        from odradek.foundation.errors import UnknownTopicOrPartition

        changes = [ConfigChange(key, value) for key, value in settings.items()]
        changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in unset]
        warning = None
        try:
            if changes:
                warning = await ConfigAdmin(client).alter(ResourceType.TOPIC, name, changes)
            if partitions:
                await TopicAdmin(client).create_partitions(name, total=partitions)
            if replication_factor:
                admin = BrokerAdmin(client)
                await admin.execute(await admin.plan_factor([name], factor=replication_factor))
        except UnknownTopicOrPartition as failure:
            raise UnknownTopicOrPartition(_NO_SUCH_TOPIC.format(name)) from failure
        return warning

    warn(session.run(work), about=f"topic {name}")
    say(session.output, f"altered  {name}", {"topic": name, "result": "altered"})


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is not an error.")
@session_options
def delete(session: CommandSession, *, names: tuple[str, ...], if_exists: bool) -> int:
    """Delete topics with all their records.

    \b
    Examples:
      odradek topics delete orders
      odradek topics delete old-1 old-2 --if-exists
    """
    from odradek.client.admin.topics import TopicAdmin
    from odradek.foundation.errors import UnknownTopicOrPartition

    outcome: Mapping[str, object] = session.run(lambda client: TopicAdmin(client).delete_many(names))
    if if_exists:
        outcome = {
            name: None if isinstance(result, UnknownTopicOrPartition) else result
            for name, result in outcome.items()
        }
    return _report(session, outcome, verb="deleted")


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
    help="For a partition without a leader, elect any live replica: acknowledged records that it lacks are LOST.",
)
@session_options
def elect_leaders(
    session: CommandSession, *, names: tuple[str, ...], partitions: str | None, unclean: bool
) -> int:
    """Elect the preferred leaders again, or with --unclean leaders of partitions that have none. Without names all
    topics are meant.

    \b
    Examples:
      odradek topics elect-leaders
      odradek topics elect-leaders orders --partition 0-3
      odradek topics elect-leaders orders --unclean
    """
    numbers = None if partitions is None else parse_partitions(partitions)
    if numbers is not None and len(names) != 1:
        raise click.UsageError("--partition needs the name of one topic")

    async def work(client: Client) -> dict[TopicPartition, OdradekError | None]:
        from odradek.client.admin.reassignments import ReassignmentAdmin

        admin = ReassignmentAdmin(client)
        if not names:
            return await admin.elect_leaders(unclean=unclean)
        cluster = await client.with_retries(lambda: client.refresh(names))
        wanted = [key for name in names for key in cluster.partitions(name, numbers)]
        return await admin.elect_leaders(wanted, unclean=unclean)

    return _report_elections(session, session.run(work))


def _report_elections(session: CommandSession, outcome: Mapping[TopicPartition, OdradekError | None]) -> int:
    from odradek.foundation.errors import ElectionNotNeeded

    exit_code: int = ExitCode.OK
    documents: list[dict[str, object]] = []
    for where, failure in sorted(outcome.items()):
        result = "elected"
        if isinstance(failure, ElectionNotNeeded):
            result = "not needed"
        elif failure is not None:
            result = str(failure)
            exit_code = exit_code or exit_code_for(failure)
        documents.append({"topic": where.topic, "partition": where.partition, "result": result})
    if not documents and not session.is_json:
        click.echo("no partition needs an election")
    else:
        show_documents(session.output, ("topic", "partition", "result"), documents)
    return exit_code
