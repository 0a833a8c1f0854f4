"""Runs the verbs of `odradek groups` that `verbs` declares."""

from __future__ import annotations

import click

from odradek.broker.groups.consumer.patterns import TopicPatterns
from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.groups.group_details import describe_groups
from odradek.cli.groups.group_tables import print_members, print_offsets, print_states
from odradek.cli.groups.verbs import STATES, TYPES
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import (
    failure_fields,
    print_errors,
    say,
    say_dry_run,
    show,
    show_document,
    state_in_color,
)
from odradek.cli.shared.watch import look
from odradek.client.admin.groups import ZOOKEEPER, GroupAdmin
from odradek.client.client import Client
from odradek.client.results import GroupListing
from odradek.client.suggestions import with_suggestions
from odradek.foundation.errors import GroupIdNotFound, OdradekError


def _choose_names(given: tuple[str, ...], known: tuple[str, ...], option: str) -> set[str]:
    """The names given, with commas or one by one, in lower case. Raises click.BadParameter for an unknown one."""
    chosen = {part.strip().lower() for text in given for part in text.split(",") if part.strip()}
    by_lower = {name.lower(): name for name in known}
    for name in sorted(chosen - by_lower.keys()):
        raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint=option)
    return chosen


def list_groups(
    session: CommandSession, *, states: tuple[str, ...], types: tuple[str, ...], watch: float | None
) -> int:
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


def delete(
    session: CommandSession, *, group_ids: tuple[str, ...], all_groups: bool, if_exists: bool, execute: bool
) -> int:
    if bool(group_ids) == all_groups:
        raise click.UsageError("give a GROUP (several are allowed), or --all-groups")

    async def work(client: Client) -> dict[str, Exception | None]:
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
        say_dry_run("deleted", is_empty=len(failures) == len(documents))
    show_document(session.output, documents)
    return exit_code


def check_pattern(session: CommandSession, *, pattern: str) -> None:
    TopicPatterns().check(pattern)
    say(session.output, f"valid    {pattern}", {"pattern": pattern, "result": "valid"})
