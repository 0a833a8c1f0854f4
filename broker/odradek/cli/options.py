"""The options that every verb takes, before or after its name, and the session that they make.

A verb declares `@session_options` and gets a `Session`: where the brokers are, how to print, how long to wait. The
session opens the client for one piece of work and closes it after.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli import interrupts
from odradek.cli.output import FORMATS, JSON, TABLE

if TYPE_CHECKING:
    from odradek.client.client import Client

T = TypeVar("T")

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
TIMEOUT_SECONDS_DEFAULT = 30.0


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """What was given before the verb; None where nothing was."""

    bootstrap: str
    output: str | None
    timeout_seconds: float | None
    verbose: bool


@dataclass(frozen=True, slots=True)
class Session:
    """One command's surroundings."""

    bootstrap: str
    output: str
    timeout_seconds: float
    verbose: bool
    given_timeout_seconds: float | None = None
    """What --timeout said, for what else than a request waits by another default."""

    @property
    def is_json(self) -> bool:
        """Whether programs read the output."""
        return self.output == JSON

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Connect, do `work` with the client, close; errors pass through."""
        return interrupts.run(self._run(work))

    async def _run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        from odradek.client.client import Client

        try:
            client = Client(
                self.bootstrap,
                client_id="odradek-cli",
                request_timeout_ms=round(self.timeout_seconds * 1000),
                connect_timeout_ms=round(min(self.timeout_seconds, 10.0) * 1000),
            )
        except ValueError as failure:
            raise click.UsageError(f"--bootstrap {self.bootstrap}: {failure}") from failure
        async with client:
            return await work(client)


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The four shared options, None where not given."""
    options = (
        click.option(
            "-b", "--bootstrap", metavar="HOST:PORT[,…]", help="Brokers to ask first; IPv6 as [::1]:9092."
        ),
        click.option(
            "-o", "--output", type=click.Choice(FORMATS), help="table for people, json for programs."
        ),
        click.option(
            "--timeout", type=click.FloatRange(min=0.001), metavar="SECONDS", help="How long to wait."
        ),
        click.option("-v", "--verbose", is_flag=True, help="Show the trace of an error."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def session_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a verb and hand it their sum as `session`."""

    @click.pass_context
    @functools.wraps(function)
    def with_session(
        ctx: click.Context,
        /,
        *arguments: Any,
        bootstrap: str | None,
        output: str | None,
        timeout: float | None,
        verbose: bool,
        **rest: Any,
    ) -> Any:
        above = ctx.find_root().obj
        if not isinstance(above, GlobalOptions):
            above = GlobalOptions(
                bootstrap=BOOTSTRAP_DEFAULT, output=None, timeout_seconds=None, verbose=False
            )
        session = Session(
            bootstrap=bootstrap or above.bootstrap,
            output=output or above.output or TABLE,
            timeout_seconds=timeout or above.timeout_seconds or TIMEOUT_SECONDS_DEFAULT,
            verbose=verbose or above.verbose,
            given_timeout_seconds=timeout or above.timeout_seconds,
        )
        return function(session, *arguments, **rest)

    return connection_options(with_session)


def parse_partitions(text: str) -> tuple[int, ...]:
    """`0,2,5-7` as numbers. Raises click.BadParameter."""
    partitions: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise click.BadParameter(f"{text!r} is no list of partitions; write it like 0 or 0,2 or 0-3")
        partitions.extend(range(int(first), int(last) + 1) if dash else (int(first),))
    return tuple(dict.fromkeys(partitions))


def parse_assignments(pairs: tuple[str, ...], *, option: str) -> dict[str, str]:
    """`key=value` pairs as a mapping. Raises click.BadParameter naming `option`."""
    assignments: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is no key=value", param_hint=option)
        assignments[key.strip()] = value.strip()
    return assignments
