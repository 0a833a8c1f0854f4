"""The root of the command line: its verbs, the shared options, and the one place where errors become exit codes.

An error becomes one line on stderr with a remedy; --verbose adds the trace. `exit_codes` has the table of exit codes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.connection_settings import GivenOptions
from odradek.cli.shared.environment import COMPLETION_VARIABLE
from odradek.cli.shared.interrupts import Terminated, exit_code_of
from odradek.cli.shared.options import GlobalOptions, connection_options
from odradek.cli.shared.output import print_error
from odradek.foundation.errors import OdradekError
from odradek.foundation.verb_groups import explain_extra_arguments
from odradek.foundation.version import __version__

VERBS = {
    "start": "odradek.cli.cluster.start:start",
    "stop": "odradek.cli.cluster.named.verbs:stop",
    "running": "odradek.cli.cluster.named.verbs:running",
    "broker": "odradek.cli.cluster.cluster_processes:broker",
    "controller": "odradek.cli.cluster.cluster_processes:controller",
    "cluster": "odradek.cli.cluster.verbs:cluster",
    "status": "odradek.cli.cluster.status:status",
    "doctor": "odradek.cli.cluster.doctor:doctor",
    "console": "odradek.cli.cluster.console:console",
    "top": "odradek.cli.cluster.top.verb:top",
    "support-bundle": "odradek.cli.cluster.bundle.verb:support_bundle",
    "topics": "odradek.cli.topics.verbs:topics",
    "groups": "odradek.cli.groups.verbs:groups",
    "queues": "odradek.cli.queues.verbs:queues",
    "transactions": "odradek.cli.groups.transactions:transactions",
    "configs": "odradek.cli.topics.configs:configs",
    "acls": "odradek.cli.security.acls:acls",
    "quotas": "odradek.cli.cluster.quotas:quotas",
    "users": "odradek.cli.security.users:users",
    "audit-access": "odradek.cli.security.audit_access:audit_access",
    "brokers": "odradek.cli.brokers.verbs:brokers",
    "reassign": "odradek.cli.brokers.reassign:reassign",
    "produce": "odradek.cli.records.produce:produce",
    "consume": "odradek.cli.records.consume:consume",
    "dump-log": "odradek.cli.records.dump_log:dump_log",
    "mirror": "odradek.cli.cluster.mirror:mirror",
    "perf": "odradek.cli.records.perf:perf",
    "profile": "odradek.cli.shared.profile:profile",
    "completion": "odradek.cli.completion:completion",
    "help": "odradek.cli.help:show_help",
}


# The errors of a write to stdout, except for a closed pipe.
_OUTPUT_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class _OutputClosedError(Exception):
    """The reader of our stdout has closed it."""


class CommandLine(LazyGroup):
    """The root group. Its `main` prints a traceback only with --verbose."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        exit_code = self._run(given, **extra)
        if standalone_mode:
            sys.exit(exit_code)
        return exit_code

    def _main_shell_completion(self, *arguments: Any, **named: Any) -> None:
        """Completes a line as click does, but without output on stderr, and ends the process right after. A shell would
        show stderr in the middle of the line, and the interpreter would wait for the thread that resolves a name.
        """
        if COMPLETION_VARIABLE not in os.environ:
            return
        from odradek.cli.completion import register

        register()
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            try:
                super()._main_shell_completion(*arguments, **named)
                code = 0
            except SystemExit as ending:
                code = int(ending.code or 0)
            sys.stdout.flush()
            os._exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """As in click, but a closed stdout keeps its own exit code: click would exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as failure:
            raise _OutputClosedError from failure

    def _run(self, arguments: list[str], **extra: Any) -> int:
        try:
            result = super().main(args=arguments, standalone_mode=False, **extra)
            sys.stdout.flush()
            return int(result) if isinstance(result, int) else ExitCode.OK
        except click.exceptions.NoArgsIsHelpError as failure:
            failure.show()
            return ExitCode.USAGE
        except click.ClickException as failure:
            explained = explain_extra_arguments(failure) if isinstance(failure, click.UsageError) else failure
            explained.show()
            return ExitCode.USAGE
        except (KeyboardInterrupt, click.Abort):
            return ExitCode.INTERRUPTED
        except Terminated as ending:
            return exit_code_of(ending.number)
        except (_OutputClosedError, BrokenPipeError):
            _forget_stdout()
            return ExitCode.OUTPUT_CLOSED
        except Exception as failure:
            return report(failure, verbose="--verbose" in arguments or "-v" in arguments)


def report(failure: Exception, *, verbose: bool) -> int:
    """Print one line about `failure` on stderr (the whole trace when `verbose`) and return its exit code."""
    words = _format_failure(failure)
    try:
        sys.stdout.flush()
    except OSError:
        _forget_stdout()  # what it still holds cannot be written either
    if verbose:
        traceback.print_exception(failure)
    words = " ".join("; ".join((words, *getattr(failure, "__notes__", ()))).split())
    if not isinstance(failure, OdradekError | OSError | ValueError) or not words:
        words = f"{type(failure).__name__}: {words}".rstrip(": ")
        if not verbose:
            words += " (add --verbose for the trace)"
    print_error(words)
    return exit_code_for(failure)


def _format_failure(failure: Exception) -> str:
    """The message of an error. Errors of the operating system name a file, except those of stdout."""
    if not isinstance(failure, OSError) or isinstance(failure, ConnectionError | TimeoutError):
        return str(failure)
    if failure.filename is not None:
        return f"{failure.filename}: {failure.strerror}"
    if failure.errno == errno.EBADF and (closed := _find_closed_streams()):
        return f"{closed} is closed, and this command needs it"
    if failure.errno in _OUTPUT_FAILURES:
        return f"the output cannot be written: {failure.strerror}"
    return str(failure)


def _find_closed_streams() -> str:
    """Those of stdin and stdout that the caller closed: they cannot be used in their direction."""
    closed = []
    for name, unusable in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY)):
        with contextlib.suppress(OSError, ValueError):
            if fcntl.fcntl(getattr(sys, name).fileno(), fcntl.F_GETFL) & os.O_ACCMODE == unusable:
                closed.append(name)
    return " or ".join(closed)


def _forget_stdout() -> None:
    """Point stdout at /dev/null, or the interpreter reports at exit, again, that it cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@click.group(
    cls=CommandLine,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 3 not found, 4 no connection, 5 timeout, 6 exists already, "
    "7 refused by the broker, 8 damage found, 9 degraded, 10 unhealthy, 130 interrupted, 143 terminated.",
)
@connection_options
@click.version_option(__version__, prog_name="odradek", message="%(prog)s %(version)s")
@click.pass_context
def command_line(
    ctx: click.Context,
    bootstrap: str | None,
    profile: str | None,
    command_config: str | None,
    output: str | None,
    timeout: float | None,
    verbose: bool,
    color: str | None,
) -> None:
    """A distributed log that speaks Apache Kafka's wire protocol.

    \b
    Examples:
      odradek start --data ./data --hints
      odradek topics create orders --partitions 3
      echo hello | odradek produce orders
      odradek consume orders --from-beginning

    Verbs that take away records or committed offsets only show what they would do, until --execute is given. All other
    verbs act at once; some take --dry-run or --validate-only.

    The options here may also follow a verb. The first of these that is given names the cluster: --bootstrap,
    $ODRADEK_BOOTSTRAP, --command-config, a profile (--profile, $ODRADEK_PROFILE, or the one in use). The default is
    127.0.0.1:9092. `odradek profile show` prints the settings in force and where each comes from.
    """
    ctx.obj = GlobalOptions(
        given=GivenOptions(bootstrap, timeout, command_config, profile),
        output=output,
        verbose=verbose,
        color=color,
    )


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    code = command_line.main(args=arguments, prog_name="odradek", standalone_mode=False)
    return int(code)
