"""The options that every verb takes, before or after its name, and the session that they make.

A verb declares `@session_options` and gets a `CommandSession`: the connection's settings, the kind of output, the
timeouts. The session opens the client for one piece of work and closes it after. `connection_settings` reads settings
that no option gives.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import click

from odradek.cli.shared import interrupts, late
from odradek.cli.shared.completers import complete_profiles
from odradek.cli.shared.connection_settings import (
    BOOTSTRAP_OPTION,
    DEFAULT,
    ClientSettings,
    GivenOptions,
    new_client,
    resolve,
)
from odradek.cli.shared.output import AUTO, COLORS, FORMATS, JSON, JSON_LINES, TABLE, use_color, warn
from odradek.client.properties import REQUEST_TIMEOUT_MS
from odradek.foundation.errors import MissingByName
from odradek.foundation.option_types import AnyNumber

if TYPE_CHECKING:
    from odradek.client.client import Client

T = TypeVar("T")
Decorator = Callable[[Callable[..., object]], Callable[..., object]]


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options before the verb; None for an option that is not given."""

    given: GivenOptions = field(default_factory=GivenOptions)
    output: str | None = None
    verbose: bool = False
    color: str | None = None


@dataclass(frozen=True)
class CommandSession:
    """The options of one command, and its client."""

    given: GivenOptions
    output: str
    verbose: bool

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON, for programs."""
        return self.output in (JSON, JSON_LINES)

    @property
    def given_timeout_seconds(self) -> float | None:
        """The value of --timeout, for waits other than requests that have another default."""
        return self.given.timeout_seconds

    @functools.cached_property
    def settings(self) -> ClientSettings:
        """The connection's settings in force, read when first needed. Raises as `resolve`; prints warnings once."""
        settings = resolve(self.given)
        for warning in settings.warnings:
            warn(warning)
        return settings

    @property
    def timeout_seconds(self) -> float:
        """The time that one request waits."""
        return self.settings.milliseconds(REQUEST_TIMEOUT_MS) / 1000

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Connect, do `work` with the client, close; errors pass through."""
        _ = self.settings  # wrong settings raise before a loop runs
        return interrupts.run(self._run(work))

    async def _run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async with self.open_client() as client:
            try:
                return await work(client)
            except MissingByName as failure:
                better = await late.with_suggestion(client, failure)
                if better is failure:
                    raise
                raise better from failure

    @contextlib.asynccontextmanager
    async def open_client(self, *, wait_ms_max: int | None = None) -> AsyncIterator[Client]:
        """A connected client, closed at the end. `wait_ms_max` limits each of its waits. Raises ConnectionFailed and
        ClientTimeout, with the origin of the address.
        """
        settings = self.settings
        client = new_client(settings, wait_ms_max=wait_ms_max)
        try:
            try:
                await client.connect()
            except (late.ConnectionFailed, late.ClientTimeout) as failure:
                source = settings.bootstrap.source
                if source == BOOTSTRAP_OPTION:
                    raise
                origin = (
                    "is the default; --bootstrap names another" if source == DEFAULT else f"is from {source}"
                )
                raise type(failure)(f"{failure} (the address {origin})") from failure
            yield client
        finally:
            await client.close()


def combine_decorators(*decorators: Decorator) -> Decorator:
    """All of these as one decorator. Options are listed in this order."""

    def decorate(function: Callable[..., object]) -> Callable[..., object]:
        for one in reversed(decorators):
            function = one(function)
        return function

    return decorate


class SharedOption(click.Option):
    """An option of every verb. The help of a verb has one line for all of them, since they would be most of it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if ctx.find_root() is ctx:
            return super().get_help_record(ctx)
        if self.name != _LAST_SHARED_OPTION:
            return None
        return "--bootstrap, --output …", "Options of every verb: `odradek help options`."


_LAST_SHARED_OPTION = "color"
_shared_option = functools.partial(click.option, cls=SharedOption)

# The shared options; None for an option that is not given.
connection_options = combine_decorators(
    _shared_option(
        "-b",
        "--bootstrap",
        metavar="HOST[:PORT][,…]",
        help="Brokers to ask first; port 9092 unless given; IPv6 as [::1]:9092.",
    ),
    _shared_option(
        "--profile",
        metavar="NAME",
        shell_complete=complete_profiles,
        help="Use this profile's connection; see `odradek profile`.",
    ),
    _shared_option(
        "--command-config",
        type=click.Path(),
        metavar="FILE",
        help="Read Kafka's client.properties; docs/reference/cli.md lists the keys understood.",
    ),
    _shared_option("-o", "--output", type=click.Choice(FORMATS), help="table for people, json for programs."),
    _shared_option("--timeout", type=AnyNumber(min=0.001), metavar="SECONDS", help="How long to wait."),
    _shared_option("-v", "--verbose", is_flag=True, help="Show the trace of an error."),
    _shared_option(
        "--color",
        type=click.Choice(COLORS),
        help="Mark problems by colour; auto, the default, does so on a terminal unless NO_COLOR is set.",
    ),
)


def session_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the shared options to a verb and pass them to it as `session`."""

    @click.pass_context
    @functools.wraps(function)
    def with_session(
        ctx: click.Context,
        /,
        *arguments: object,
        bootstrap: str | None,
        profile: str | None,
        command_config: str | None,
        output: str | None,
        timeout: float | None,
        verbose: bool,
        color: str | None,
        **rest: object,
    ) -> object:
        above = ctx.find_root().obj
        if not isinstance(above, GlobalOptions):
            above = GlobalOptions()
        own = GivenOptions(bootstrap, timeout, command_config, profile)
        session = CommandSession(
            given=own.over(above.given),
            output=output or above.output or TABLE,
            verbose=verbose or above.verbose,
        )
        use_color(ctx, color or above.color or AUTO)
        return function(session, *arguments, **rest)

    return connection_options(with_session)


def execute_options(function: Callable[..., object]) -> Callable[..., object]:
    """`--dry-run`, which is the default, and `--execute`: for verbs that take away records or committed offsets. The
    verb gets `execute`.
    """

    @functools.wraps(function)
    def call_checked(*arguments: object, dry_run: bool, execute: bool, **rest: object) -> object:
        if dry_run and execute:
            raise click.UsageError("--dry-run and --execute contradict each other")
        return function(*arguments, execute=execute, **rest)

    dry_run_help = "Only show the changes. This is the default."
    return combine_decorators(
        click.option("--dry-run", is_flag=True, help=dry_run_help),
        click.option("--execute", is_flag=True, help="Do it."),
    )(call_checked)


def parse_partitions(text: str) -> tuple[int, ...]:
    """`0,2,5-7` as numbers. Raises click.BadParameter."""
    partitions: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise click.BadParameter(f"{text!r} is not a list of partitions; write it like 0 or 0,2 or 0-3")
        partitions.extend(range(int(first), int(last) + 1) if dash else (int(first),))
    return tuple(dict.fromkeys(partitions))


def parse_assignments(pairs: tuple[str, ...], *, option: str) -> dict[str, str]:
    """`key=value` pairs as a mapping. Raises click.BadParameter naming `option`."""
    assignments: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE", param_hint=option)
        assignments[key.strip()] = value.strip()
    return assignments
