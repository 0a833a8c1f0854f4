"""`odradek consume`: records become lines."""

from __future__ import annotations

import click

from odradek.cli.shared.completers import complete_groups, complete_partition_numbers, complete_topics
from odradek.cli.shared.options import session_options
from odradek.cli.shared.times import TIME_HELP
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.verb_groups import run_in


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--regex", is_flag=True, help="Every TOPIC is a pattern, also one that could be a name.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    metavar="N[,N…]",
    shell_complete=complete_partition_numbers,
    help="Only these partitions, as 0,2 or 0-3.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the first record kept.")
@click.option("--from", "start_time", metavar="TIME", help=f"Start at a time: {TIME_HELP}.")
@click.option(
    "--offset",
    type=WholeNumber(),
    metavar="N",
    help="Start at this offset; -N for the last N of each partition.",
)
@click.option("--until", "end_time", metavar="TIME", help="Stop before records of this time or later.")
@click.option(
    "-n", "--max", "records_max", type=WholeNumber(min=1), metavar="N", help="Stop after N records."
)
@click.option(
    "-g",
    "--group",
    metavar="ID",
    shell_complete=complete_groups,
    help="Join this group: share its partitions, and commit the offsets of printed records.",
)
@click.option(
    "--share-group",
    metavar="ID",
    shell_complete=complete_groups,
    help="Take records from this work queue, and accept those printed.",
)
@click.option(
    "--follow/--exit-at-end",
    default=None,
    help="Wait for more at the end, or stop there. Default: stop when a start is given and no group, else follow. "
    "--follow also waits for an --offset that is not there yet, and for a topic that matches.",
)
@click.option(
    "--idle-exit",
    type=AnyNumber(min=0),
    metavar="SECONDS",
    help="Stop when no record arrives for this time.",
)
@click.option("--keys", is_flag=True, help="Print the key and a tab before the value.")
@click.option("--headers", is_flag=True, help="Print headers.")
@click.option("--offsets", is_flag=True, help="Print partition:offset.")
@click.option("--timestamps", is_flag=True, help="Print the time, in UTC.")
@click.option(
    "-f",
    "--format",
    "template",
    metavar="TEMPLATE",
    help="Print by a template; see above for its two styles.",
)
@click.option(
    "--null-value",
    metavar="TEXT",
    help="Print keys and values that are null as this text. Default: NULL on a terminal, else nothing. "
    "JSON has null for them.",
)
@click.option(
    "--json-values",
    is_flag=True,
    help="With --output json: print keys and values that are JSON as JSON, and not as quoted text.",
)
@click.option(
    "--schema-registry",
    "registry_url",
    metavar="URL",
    help="Decode values by Avro, Protobuf and JSON schemas. Default: $ODRADEK_SCHEMA_REGISTRY, or the property "
    "schema.registry.url; '' for none.",
)
@click.option(
    "--schema-parts",
    type=click.Choice(("value", "key", "key,value")),
    default="value",
    show_default=True,
    help="What is decoded.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show on stderr how far it is. Default: when stderr is a terminal and stdout is a file.",
)
@click.option(
    "--isolation",
    type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    show_default=True,
)
@session_options
@run_in("odradek.cli.records.consume_run")
def consume() -> None:
    """Print the records of topics.

    \b
    Examples:
      odradek consume orders                       from now on, until Ctrl-C
      odradek consume orders --from-beginning      all there is, then stop
      odradek consume orders --from 5m --follow    the last five minutes, and new ones
      odradek consume orders --offset -10          the last ten of each partition
      odradek consume 'orders.*'                   every topic whose name matches, new ones too
      odradek consume orders --group billing       share with others and commit the position
      odradek consume jobs --share-group resize    take records of a work queue
      odradek consume orders --from-beginning --output json --json-values | jq .value.id
      odradek consume orders --from-beginning --format '{partition}:{offset} {key:10} {value}'
      odradek consume orders --from-beginning -f '%t [%p] at %o: %k = %s\\n'
      odradek consume orders --from-beginning --schema-registry http://127.0.0.1:8081

    A TOPIC with a character that no name can have, such as * or |, is a pattern in RE2 syntax. It has to match a whole
    name, and never matches an internal topic.

    \b
    --format has two styles; a template of both is refused.
      {key} {value} {offset} {partition} {topic} {timestamp} {timestamp_ms} {headers} {key_bytes}
      {value_bytes}: a newline follows each record. {key:>10} {key:<10} {key:^10} {key:*>10} fill to a
      width, {value:.80} shortens. {{ and }} are braces.
      %k %s %o %p %t %T %h %K %S %R: kcat's tokens, %% for a percent sign; no newline follows.
    Both understand \\n \\t \\r \\xHH \\NNN. A size of -1 is a null.

    --schema-registry prints values that begin with a registry's header as JSON, and others as they are. For one that
    cannot be decoded stderr says why, and the exit code is 1. Client properties have its login and CA.
    """
