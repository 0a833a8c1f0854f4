"""`odradek groups`: list, describe with lag, delete. `group_offsets` has the verbs that change offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.completers import complete_groups, one_of
from odradek.cli.shared.options import CommandSession, execute_options, session_options
from odradek.cli.shared.output import failure_fields, print_errors, say, show, show_document, state_in_color
from odradek.cli.shared.watch import WatchCommand, look, watch_option

if TYPE_CHECKING:
    from odradek.client.admin.results import GroupListing
    from odradek.client.client import Client


# Kafka's names (GroupState, GroupType), for classic and consumer groups; those in ZooKeeper have a type of their own.
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("classic", "consumer", "zookeeper")
VERBS = {
    "list": "odradek.cli.groups.verbs:list_groups",
    "describe": "odradek.cli.groups.verbs:describe",
    "reset-offsets": "odradek.cli.groups.group_offsets:reset_offsets",
    "delete-offsets": "odradek.cli.groups.group_offsets:delete_offsets",
    "delete": "odradek.cli.groups.verbs:delete",
    "check-pattern": "odradek.cli.groups.verbs:check_pattern",
}


@click.group(cls=LazyGroup, verbs=VERBS)
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


def _choose_names(given: tuple[str, ...], known: tuple[str, ...], option: str) -> set[str]:
    """The names given, with commas or one by one, in lower case. Raises click.BadParameter for an unknown one."""
    chosen = {part.strip().lower() for text in given for part in text.split(",") if part.strip()}
    by_lower = {name.lower(): name for name in known}
    for name in sorted(chosen - by_lower.keys()):
        raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint=option)
    return chosen


@click.command("list", cls=WatchCommand)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE[,…]",
    shell_complete=one_of(STATES),
    help="Only in these states, as Stable or Empty; may be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE[,…]",
    shell_complete=one_of(TYPES),
    help="Only of these types: classic, consumer, zookeeper; may be repeated.",
)
@watch_option
@session_options
def list_groups(
    session: CommandSession, *, states: tuple[str, ...], types: tuple[str, ...], watch: float | None
) -> int:
    """List the groups: those that brokers coordinate, and those whose consumers share partitions through ZooKeeper.

    \b
    Examples:
      odradek groups list
      odradek groups list --state Stable,Empty
      odradek groups list --type consumer
    """
    from odradek.client.admin.groups import GroupAdmin

    wanted_states = _choose_names(states, STATES, "--state")
    wanted_types = _choose_names(types, TYPES, "--type")

    def present(session: CommandSession, listed: list[GroupListing]) -> None:
        found = [
            group
            for group in listed
            if (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_types or group.type.lower() in wanted_types)
        ]
        show(
            session.output,
            headers=("GROUP", "STATE", "TYPE", "PROTOCOL"),
            rows=[(one.group_id, state_in_color(one.state), one.type, one.protocol_type) for one in found],
            document=found,
            empty="there is no group" if not (wanted_states or wanted_types) else "there is no such group",
        )

    return look(session, lambda client: GroupAdmin(client).list(), present, every_seconds=watch)


@click.command(cls=WatchCommand)
@click.argument("group_ids", nargs=-1, metavar="[GROUP…]", shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="All groups, as without names.")
@click.option("--offsets", is_flag=True, help="Show the partitions; this is the default.")
@click.option("--members", is_flag=True, help="Show the members instead of the partitions.")
@click.option("--state", is_flag=True, help="Show one line for each group, without its offsets.")
@watch_option
@session_options
def describe(
    session: CommandSession,
    *,
    group_ids: tuple[str, ...],
    all_groups: bool,
    offsets: bool,
    members: bool,
    state: bool,
    watch: float | None,
) -> int:
    """Show the committed offsets and the lag of groups (all groups without names).

    Lag is the number of records that are not yet committed, and the seconds that the oldest of them has waited. Groups
    of consumers that share partitions through ZooKeeper have the type zookeeper; their members are consumer ids. A line
    below the group's name warns when commits are refused because its coordinator's disk is full. --verbose adds epochs,
    subscriptions and the members' target assignments.

    \b
    Examples:
      odradek groups describe billing
      odradek groups describe billing --members --verbose
      odradek groups describe --state
      odradek groups describe billing --watch
      odradek groups describe --output json | jq '.[].partitions[].lag_seconds'
    """
    from odradek.cli.groups.group_details import describe_groups
    from odradek.cli.groups.group_tables import print_members, print_offsets, print_states

    if offsets + members + state > 1:
        raise click.UsageError("give one of --offsets, --members, --state")
    if all_groups and group_ids:
        raise click.UsageError("--all-groups and the name of a group contradict each other")

    def present(session: CommandSession, described: list[dict[str, object]]) -> None:
        print_groups = print_states if state else print_members if members else print_offsets
        if not show_document(session.output, described):
            print_groups(described, is_verbose=session.verbose)

    return look(
        session,
        lambda client: describe_groups(client, group_ids, with_offsets=not state),
        present,
        every_seconds=watch,
    )


@click.command()
@click.argument("group_ids", nargs=-1, metavar="[GROUP…]", shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Every group there is, but for those in ZooKeeper.")
@click.option("--if-exists", is_flag=True, help="A group that does not exist is not an error.")
@execute_options
@session_options
def delete(
    session: CommandSession, *, group_ids: tuple[str, ...], all_groups: bool, if_exists: bool, execute: bool
) -> int:
    """Delete groups with their committed offsets. Their consumers must be stopped first.

    \b
    Examples:
      odradek groups delete billing
      odradek groups delete billing --execute
      odradek groups delete a b --if-exists --execute
    """
    if bool(group_ids) == all_groups:
        raise click.UsageError("give a GROUP (several are allowed), or --all-groups")

    async def work(client: Client) -> dict[str, Exception | None]:
        from odradek.client.admin.groups import ZOOKEEPER, GroupAdmin
        from odradek.client.suggestions import with_suggestions
        from odradek.foundation.errors import GroupIdNotFound, OdradekError

        outcome: dict[str, Exception | None] = {}
        ids = group_ids or [
            group.group_id for group in await GroupAdmin(client).list() if group.type != ZOOKEEPER
        ]
        for group_id in ids:
            try:
                await GroupAdmin(client).check_changeable(group_id)
                if execute:
                    await GroupAdmin(client).delete(group_id)
                else:
                    await GroupAdmin(client).describe(group_id)
                outcome[group_id] = None
            except OdradekError as failure:
                is_fine = if_exists and isinstance(failure, GroupIdNotFound)
                outcome[group_id] = None if is_fine else failure
        failures = {name: one for name, one in outcome.items() if isinstance(one, OdradekError)}
        better = await with_suggestions(client, list(failures.values()))
        return outcome | dict(zip(failures, better, strict=True))

    exit_code: int = ExitCode.OK
    documents: list[dict[str, object]] = []
    failures: list[Exception] = []
    done = "deleted" if execute else "would delete"
    for group_id, failure in session.run(work).items():
        if failure is None:
            documents.append({"group": group_id, "result": done})
            if not session.is_json:
                click.echo(f"{done}  {group_id}")
            continue
        exit_code = exit_code or exit_code_for(failure)
        documents.append({"group": group_id, "result": "failed", **failure_fields(failure)})
        failures.append(failure)
    print_errors(failures)
    if not execute:
        click.echo("dry run: nothing was deleted; add --execute to do it", err=True)
    show_document(session.output, documents)
    return exit_code


@click.command("check-pattern")
@click.argument("pattern")
@session_options
def check_pattern(session: CommandSession, *, pattern: str) -> None:
    """Check whether brokers accept a pattern of topics (RE2, KIP-848). No broker is asked.

    \b
    Examples:
      odradek groups check-pattern 'orders-.*'
    """
    from odradek.broker.groups.consumer.patterns import TopicPatterns

    TopicPatterns().check(pattern)
    say(session.output, f"valid    {pattern}", {"pattern": pattern, "result": "valid"})
