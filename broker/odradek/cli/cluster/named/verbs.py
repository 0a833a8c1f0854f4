"""`odradek running` and `odradek stop`: the brokers with names on this machine."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from odradek.cli.cluster.named.named_broker import NamedBroker, all_names, folder_of_all
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.completers import complete_from
from odradek.cli.shared.output import FORMATS, TABLE, print_error, say, show_documents, warning
from odradek.foundation.errors import OdradekError
from odradek.foundation.words import nearest_name

_COLUMNS = ("name", "state", "bootstrap", "pid", "data")

_output_option = click.option(
    "-o", "--output", type=click.Choice(FORMATS), help="table for people, json for programs."
)


def complete_named_brokers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names that are kept and not on the line yet; none where they cannot be read."""
    try:
        return complete_from(ctx, param, all_names(), incomplete)
    except OSError:
        return []


@click.command()
@click.option("--all", "with_stopped", is_flag=True, help="Those that do not run, too.")
@_output_option
@click.pass_context
def running(ctx: click.Context, *, with_stopped: bool, output: str | None) -> None:
    """List the brokers that `odradek start NAME` has started on this machine: their addresses, processes and folders.

    A broker is `running` once it serves, and `starting` before. `killed` is one whose process ended without a stop;
    `odradek start NAME` recovers it.

    \b
    Examples:
      odradek running
      odradek running --all
      odradek running --output json | jq -r '.[] | select(.name == "orders").bootstrap'
    """
    rows = [_describe(NamedBroker(name)) for name in all_names()]
    shown = [row for row in rows if with_stopped or row["pid"] is not None]
    kind = _output(ctx, output)
    if kind == TABLE:
        shown = [{**row, "state": _in_color(row["state"])} for row in shown]
    empty = "no broker has a name yet; `odradek start NAME` starts one"
    if rows:
        empty = (
            f"none of {len(rows)} runs; --all lists them"
            if len(rows) > 1
            else "it does not run; --all lists it"
        )
    show_documents(kind, _COLUMNS, shown, empty=empty)


def _describe(broker: NamedBroker) -> dict[str, object]:
    process = broker.running_process()
    if process is None:
        state = "killed" if broker.was_killed else "stopped"
    else:
        state = "running" if process.bootstrap is not None else "starting"
    return {
        "name": broker.name,
        "state": state,
        "bootstrap": None if process is None else process.bootstrap,
        "pid": None if process is None else process.pid,
        "data": str(broker.data),
    }


def _in_color(state: object) -> object:
    return warning(state) if state == "killed" else state


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME…]", shell_complete=complete_named_brokers)
@click.option("--all", "stop_all", is_flag=True, help="Every broker that has a name.")
@click.option(
    "--forget",
    is_flag=True,
    help="Also forget the name's port and options. The records stay where they are.",
)
@_output_option
@click.pass_context
def stop(
    ctx: click.Context, *, names: tuple[str, ...], stop_all: bool, forget: bool, output: str | None
) -> int:
    """Stop brokers that `odradek start NAME` has started, as SIGTERM does. Records, port and options are kept for the
    next start. To stop one that does not run is no error.

    \b
    Examples:
      odradek stop orders
      odradek stop orders billing
      odradek stop --all
      odradek stop orders --forget
    """
    if bool(names) == stop_all:
        raise click.UsageError("give a NAME, or --all")
    code = ExitCode.OK
    for name in all_names() if stop_all else names:
        broker = NamedBroker(name)
        if not broker.folder.is_dir():
            raise FileNotFoundError(_unknown(name))
        try:
            was_running = broker.stop()
        except (OdradekError, OSError) as failure:
            print_error(failure)
            code = ExitCode.TIMEOUT if isinstance(failure, TimeoutError) else ExitCode.FAILED
            continue
        _forget_or_say(broker, was_running, forget=forget, output=_output(ctx, output))
    return code


def _forget_or_say(broker: NamedBroker, was_running: bool, *, forget: bool, output: str) -> None:
    document = {"name": broker.name, "result": "stopped" if was_running else "not running"}
    words = "stopped" if was_running else "does not run"
    if forget:
        data = _data_of(broker)
        broker.forget()
        document |= {"result": "forgotten", "data": data}
        words = f"{'stopped and ' * was_running}forgotten; its records are in {data}"
    say(output, f"{broker.name}  {words}", document)


def _data_of(broker: NamedBroker) -> str:
    """The folder of the records, also where the file that names it is damaged."""
    try:
        return str(broker.data)
    except OdradekError:
        return f"{broker.folder / 'data'}, or where --data was"


def _unknown(name: str) -> str:
    known = all_names()
    nearest = nearest_name(name, known)
    if nearest is not None:
        return f"no broker has the name {name!r}; did you mean {nearest!r}?"
    there = ", ".join(known) or f"none in {folder_of_all()}"
    return f"no broker has the name {name!r}; there are: {there}"


def _output(ctx: click.Context, given: str | None) -> str:
    return given or getattr(ctx.find_root().obj, "output", None) or TABLE
