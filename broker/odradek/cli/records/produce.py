"""`odradek produce`: lines become records."""

from __future__ import annotations

import click

from odradek.cli.shared.completers import complete_partition_numbers, complete_topics
from odradek.cli.shared.options import session_options
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.verb_groups import run_in

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# Each batch has a fixed cost, so batches are large. A topic with a lower limit gets it in parts.
BATCH_BYTES_DEFAULT = 512 * 1024
ACKS = {"0": 0, "1": 1, "all": -1}


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read a file, not stdin.")
@click.option("--json", "is_json_input", is_flag=True, help="Each line is a JSON object; see above.")
@click.option("-k", "--key", help="One key for all records.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY TEXT VALUE; \\t for a tab.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option(
    "-p",
    "--partition",
    type=WholeNumber(min=0),
    shell_complete=complete_partition_numbers,
    help="Send all to this partition.",
)
@click.option("--null-value", metavar="TEXT", help="A value of exactly this text becomes null.")
@click.option("--skip-empty", is_flag=True, help="Leave empty lines out.")
@click.option(
    "--crlf", "is_crlf", is_flag=True, help="Lines end with CR LF: the CR is not part of the value."
)
@click.option(
    "--skip-lines",
    type=WholeNumber(min=0),
    default=0,
    metavar="N",
    help="Leave out the first N lines: continue where a run ended.",
)
@click.option(
    "--create/--no-create",
    default=None,
    help="Make a missing topic, or fail. Default: make it, unless its name looks like that of another topic misspelt.",
)
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(tuple(ACKS)), default="all", show_default=True)
@click.option("--linger-ms", type=AnyNumber(min=0), default=5.0, show_default=True)
@click.option("--batch-bytes", type=WholeNumber(min=1), default=BATCH_BYTES_DEFAULT, show_default=True)
@click.option("--rate", type=AnyNumber(min=0, min_open=True), metavar="N", help="Records a second at most.")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Send all records in one transaction: `consume --isolation read_committed` prints all or none.",
)
@click.option(
    "--transaction-timeout",
    type=AnyNumber(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The broker aborts a transaction that is open for longer.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print how many records were sent.")
@session_options
@run_in("odradek.cli.records.produce_run")
def produce() -> None:
    """Send each line of stdin (or a file) as a record.

    \b
    Examples:
      echo hello | odradek produce orders
      printf 'a:1\\nb:2\\n' | odradek produce orders --key-separator :
      odradek produce orders --file orders.jsonl --json --compression zstd
      seq 1000 | odradek produce ticks --rate 10 --header source=cron
      odradek produce orders --file day.jsonl --json --transactional-id day   all of it, or nothing

    \b
    With --json a line is what `odradek consume --output json` prints, of which only
    "value" need be there. Text and null mean themselves; an object, a list, a number or
    true is written as compact JSON. So is it with "key". Other fields are refused.
      {"key": "a", "value": {"b": 1}, "headers": [["n", "v"]], "partition": 0, "timestamp_ms": 0}

    The command ends when every record is acknowledged, and fails when a record failed. A record that a broker refuses
    for now is sent again for --timeout, by default two minutes. The command may end early: a line is not a record, an
    error, Ctrl-C. It then prints how many records were written, and the --skip-lines that continues from there.
    """
