"""`odradek queues`: share groups, whose members share the records of topics as workers share a queue (KIP-932)."""

from __future__ import annotations

import click

from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.admin_option import admin_option
from odradek.cli.shared.completers import complete_groups, complete_topics
from odradek.cli.shared.options import execute_options, session_options
from odradek.cli.shared.times import TIME_HELP
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in

VERBS = {
    "list": "odradek.cli.queues.verbs:list_queues",
    "describe": "odradek.cli.queues.verbs:describe",
    "locks": "odradek.cli.queues.verbs:locks",
    "peek": "odradek.cli.queues.verbs:peek",
    "reset": "odradek.cli.queues.verbs:reset",
    "forget": "odradek.cli.queues.verbs:forget",
    "delete": "odradek.cli.queues.verbs:delete",
    "dead-letters": "odradek.cli.queues.verbs:dead_letters",
    "give-back": "odradek.cli.queues.verbs:give_back",
}
PEEK_RECORDS = 10
PEEK_RECORDS_MAX = 10_000

LETTERS = 100
LETTERS_MAX = 100_000

_topic_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="This topic; may be repeated.",
)


@click.group(cls=LazyGroup, verbs=VERBS)
def queues() -> None:
    """List, describe, look into, reset and delete work queues: share groups."""


@click.command("list", cls=WatchCommand)
@watch_option
@session_options
@run_in("odradek.cli.queues.verbs_run")
def list_queues() -> None:
    """List the queues, each with its state, its members and how many records are not done.

    \b
    Examples:
      odradek queues list
      odradek queues list --watch
    """


@click.command(cls=WatchCommand)
@click.argument("group_ids", nargs=-1, metavar="[QUEUE…]", shell_complete=complete_groups)
@click.option("--members", is_flag=True, help="Show the members instead of the partitions.")
@watch_option
@session_options
@run_in("odradek.cli.queues.verbs_run")
def describe() -> None:
    """Show where queues are (all queues without names): what is done, and what is left.

    START is the first offset that is not done. LAG is the number of records from there on that are not done: those
    that wait, and those that a member works on. --verbose adds the settings of each queue.

    \b
    Examples:
      odradek queues describe resize
      odradek queues describe resize --members
      odradek queues describe --output json | jq '.[].lag'
    """


@click.command(cls=WatchCommand)
@click.argument("group_id", metavar="QUEUE", shell_complete=complete_groups)
@admin_option("The --admin port of a broker, instead of port 9644 of each broker's host; may be repeated.")
@watch_option
@session_options
@run_in("odradek.cli.queues.locks_run")
def locks() -> None:
    """Show which records of a queue are locked, by which member, and for how long.

    Kafka's protocol has no request for it, so this asks the port that brokers have with --admin. All brokers must
    answer, since each knows of the partitions that it leads. One that does not is named, and the exit code is that of
    its error. --verbose adds how many records of each partition are in flight.

    The port is asked by HTTPS where the connection has TLS, with the same authorities, certificate and login, and else
    by HTTP. `--admin http://…` and `--admin https://…` say otherwise. A login never goes over plain HTTP, and one with
    a delegation token is not possible. A port without logins shows locks to other machines only where clients without
    a login may describe the group.

    \b
    Examples:
      odradek queues locks resize
      odradek queues locks resize --watch
      odradek queues locks resize --admin broker-1:9700 --admin broker-2:9700
      odradek queues locks resize --output json | jq '.locks[] | select(.delivery_count > 3)'
    """


@click.command()
@click.argument("group_id", metavar="QUEUE", shell_complete=complete_groups)
@_topic_option
@click.option(
    "-n",
    "--max-records",
    type=WholeNumber(min=1, max=PEEK_RECORDS_MAX),
    default=PEEK_RECORDS,
    show_default=True,
    help="At most so many records of each partition.",
)
@session_options
@run_in("odradek.cli.queues.verbs_run")
def peek() -> None:
    """Show the records that come next, without taking them from the queue.

    They are the first ones from START on. A member may be at work on some of them, or be done with some.

    \b
    Examples:
      odradek queues peek resize
      odradek queues peek resize --topic images -n 3
    """


@click.command()
@click.argument("group_id", metavar="QUEUE", shell_complete=complete_groups)
@_topic_option
@click.option("--all-topics", is_flag=True, help="Every topic that the queue has begun.")
@click.option("--to-earliest", is_flag=True, help="The first record kept.")
@click.option("--to-latest", is_flag=True, help="The end: what is there now is skipped.")
@click.option("--to-datetime", metavar="TIME", help=f"The first record at or after a time: {TIME_HELP}.")
@execute_options
@session_options
@run_in("odradek.cli.queues.verbs_run")
def reset() -> None:
    """Move a queue. Its members must be stopped first. What they had done from the new start on is done again.

    \b
    Examples:
      odradek queues reset resize --topic images --to-earliest
      odradek queues reset resize --all-topics --to-datetime 2026-11-01 --execute
    """


@click.command()
@click.argument("group_id", metavar="QUEUE", shell_complete=complete_groups)
@_topic_option
@execute_options
@session_options
@run_in("odradek.cli.queues.verbs_run")
def forget() -> None:
    """Forget where a queue is in topics that it reads no more. Its members must be stopped first.

    \b
    Examples:
      odradek queues forget resize --topic images --execute
    """


@click.command()
@click.argument("group_ids", nargs=-1, required=True, metavar="QUEUE…", shell_complete=complete_groups)
@execute_options
@session_options
@run_in("odradek.cli.queues.verbs_run")
def delete() -> None:
    """Delete queues, and what is known of their records. Their members must be stopped first.

    \b
    Examples:
      odradek queues delete resize
      odradek queues delete resize --execute
    """


_letters_option = click.option(
    "-n",
    "--max-letters",
    type=WholeNumber(min=1, max=LETTERS_MAX),
    default=LETTERS,
    show_default=True,
    help="At most so many letters.",
)


@click.command("dead-letters")
@click.argument("group_id", metavar="QUEUE", shell_complete=complete_groups)
@_letters_option
@session_options
@run_in("odradek.cli.queues.dead_letters_run")
def dead_letters() -> None:
    """Show what a queue has given up: the letters in its dead-letter topic that were not given back.

    \b
    Examples:
      odradek queues dead-letters resize
      odradek queues dead-letters resize --output json | jq '.[].why'
    """


@click.command("give-back")
@click.argument("group_id", metavar="QUEUE", shell_complete=complete_groups)
@_letters_option
@session_options
@run_in("odradek.cli.queues.dead_letters_run")
def give_back() -> None:
    """Write the records of dead letters to their topics again, once what made them fail is mended.

    They are new records at the end of the topic, so all groups that read it see them. A record that its topic has
    deleted is written as its letter has it. The group QUEUE.dead-letters remembers which letters were given back.
    `odradek queues dead-letters` shows them before.

    \b
    Examples:
      odradek queues give-back resize
      odradek queues give-back resize -n 1
    """
