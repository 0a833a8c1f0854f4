"""Completes names in a shell: topics, groups, brokers, settings and profiles. click completes verbs and options.

Names come from the cluster that the command line would ask, within `COMPLETION_SECONDS_MAX`. A failure (no broker, a
wrong option, a slow name server) gives no names and prints nothing. A shell would show the text in the middle of the
command line. Everything is imported when it is needed, because each verb imports this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from odradek.cli.shared import late, profiles
from odradek.cli.shared.connection_settings import GivenOptions, new_client, resolve
from odradek.client.properties import CLIENT_PROPERTIES, SCHEMA_REGISTRY_PROPERTIES

if TYPE_CHECKING:
    from odradek.client.client import Client

Names = Callable[["Client", click.Context], Awaitable[Iterable[str]]]
Items = list[CompletionItem]
Completer = Callable[[click.Context, click.Parameter, str], Items]


def complete_from(ctx: click.Context, param: click.Parameter, names: Iterable[str], incomplete: str) -> Items:
    """The names that begin with `incomplete` and are not on the line yet."""
    given = ctx.params.get(param.name or "")
    there = set(given) if isinstance(given, (tuple, list)) else set()
    return [
        # Control characters could change the terminal.
        CompletionItem(name)
        for name in names
        if name.startswith(incomplete) and name not in there and name.isprintable()
    ]


def _asking(names: Names) -> Completer:
    """A completer that asks the cluster for all names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        try:
            return complete_from(ctx, param, sorted(ask(ctx, names)), incomplete)
        except Exception:  # every failure is silent: see the module's docstring
            return []

    return complete


def ask(ctx: click.Context, names: Names) -> list[str]:
    """The names that `names` finds by the connection that the line names so far. Raises TimeoutError and any other
    failure.
    """

    def read_given(params: dict[str, str | None]) -> GivenOptions:
        return GivenOptions(
            params.get("bootstrap"), None, params.get("command_config"), params.get("profile")
        )

    settings = resolve(read_given(ctx.params).over(read_given(ctx.find_root().params)))

    async def main() -> list[str]:
        async with asyncio.timeout(late.COMPLETION_SECONDS_MAX), new_client(settings) as client:
            return list(await names(client, ctx))

    # Not `asyncio.run`: it waits for the thread that resolves names, which no time limit ends.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


async def _topics(client: Client, ctx: click.Context) -> Iterable[str]:
    return (await client.refresh(None)).topics


async def _groups(client: Client, ctx: click.Context) -> Iterable[str]:
    return [group.group_id for group in await late.GroupAdmin(client).list()]


async def _brokers(client: Client, ctx: click.Context) -> Iterable[str]:
    return map(str, client.cluster.brokers)


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Topics; internal ones (`__consumer_offsets`) only after a first underscore."""
    found = _asking(_topics)(ctx, param, incomplete)
    return [one for one in found if incomplete or not one.value.startswith("_")]


complete_groups = _asking(_groups)
complete_brokers = _asking(_brokers)


def complete_partitions(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """`TOPIC[:PARTITIONS]`: topics, and after a colon the numbers of partitions."""
    topic, colon, numbers = incomplete.partition(":")
    if not colon:
        return complete_topics(ctx, param, incomplete)
    done = numbers.rpartition(",")[0]
    before = f"{topic}:{done}," if done else f"{topic}:"

    async def find(client: Client, ctx: click.Context) -> Iterable[str]:
        known = (await client.refresh((topic,))).topic(topic).partitions
        taken = set(done.split(","))
        return [f"{before}{p.partition}" for p in known if str(p.partition) not in taken]

    return _asking(find)(ctx, param, incomplete)


def complete_partition_numbers(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """`0,2`: numbers of partitions of the first topic on the line."""
    # While an option waits for its value, click has not yet given the arguments their names.
    topics = [*(ctx.params.get(name) for name in ("topic", "topics", "names")), ctx.args]
    topic = next((found if isinstance(found, str) else found[0] for found in topics if found), None)
    if topic is None:
        return []
    before = f"{topic}:"
    found = complete_partitions(ctx, param, before + incomplete)
    return [CompletionItem(item.value.removeprefix(before)) for item in found]


_SUBSCRIPTIONS = "client-metrics"


def complete_config_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """The resources of the kind that the line names: topics, groups, subscriptions, or brokers and `default`."""
    kind = ctx.params.get("kind")
    if kind == "topic":
        return complete_topics(ctx, param, incomplete)
    if kind == "group":
        return complete_groups(ctx, param, incomplete)
    if kind == _SUBSCRIPTIONS:
        return _asking(_find_subscriptions)(ctx, param, incomplete)
    return [*complete_brokers(ctx, param, incomplete), *complete_from(ctx, param, ["default"], incomplete)]


async def _find_subscriptions(client: Client, ctx: click.Context) -> Iterable[str]:
    return await late.ConfigAdmin(client).list_names(late.ResourceType.CLIENT_METRICS)


def complete_config_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Keys of the settings that the line's topic, broker or group has. A topic's keys need no request."""
    kind, name = ctx.params.get("kind"), ctx.params.get("name")
    if kind == "topic":
        return complete_topic_keys(ctx, param, incomplete)

    async def find(client: Client, ctx: click.Context) -> Iterable[str]:
        # The brokers' common default lists only keys that are set; a broker lists all keys.
        of = str(min(client.cluster.brokers)) if name == "default" else str(name)
        entries = await late.ConfigAdmin(client).describe(
            late.ResourceType[str(kind).upper().replace("-", "_")], of
        )
        return [entry.name for entry in entries]

    return _asking(find)(ctx, param, incomplete)


def complete_topic_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Keys of a topic's settings."""
    return complete_from(ctx, param, sorted(late.TOPIC_SETTINGS), incomplete)


def assignments_of(keys: Completer) -> Completer:
    """`KEY=VALUE`: the keys with an equals sign, and nothing after it."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        if "=" in incomplete:
            return []
        return [CompletionItem(f"{item.value}=") for item in keys(ctx, param, incomplete)]

    return complete


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    try:
        return complete_from(ctx, param, profiles.names(), incomplete)
    except OSError:
        return []


def complete_properties(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    return complete_from(ctx, param, (*CLIENT_PROPERTIES, *SCHEMA_REGISTRY_PROPERTIES), incomplete)


def one_of(names: Iterable[str]) -> Completer:
    """These names."""
    return lambda ctx, param, incomplete: complete_from(ctx, param, names, incomplete)


complete_topic_assignments = assignments_of(complete_topic_keys)
complete_config_assignments = assignments_of(complete_config_keys)
complete_property_assignments = assignments_of(complete_properties)
