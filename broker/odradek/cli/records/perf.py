"""`odradek perf`: how fast this client and a broker together write and read records."""

from __future__ import annotations

import click

from odradek.cli.records.produce import ACKS, BATCH_BYTES_DEFAULT, COMPRESSIONS
from odradek.cli.shared.completers import complete_topics
from odradek.cli.shared.options import session_options
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.verb_groups import VerbGroup, run_in


@click.group(cls=VerbGroup)
def perf() -> None:
    """Measure the throughput and latency of this client and a broker together.

    It is one client process and its broker, not the broker's limit: this client is Python and mostly the slower
    of the two. Compare runs of this command with each other; `make bench` compares brokers under Kafka's own clients.
    """


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-n", "--records", type=WholeNumber(min=1), default=100_000, show_default=True)
@click.option(
    "-s", "--size", type=WholeNumber(min=0), default=100, show_default=True, help="Bytes of a value."
)
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(tuple(ACKS)), default="all", show_default=True)
@click.option("--batch-bytes", type=WholeNumber(min=1), default=BATCH_BYTES_DEFAULT, show_default=True)
@click.option("--linger-ms", type=AnyNumber(min=0), default=5.0, show_default=True)
@click.option("--rate", type=AnyNumber(min=0, min_open=True), metavar="N", help="Records a second at most.")
@session_options
@run_in("odradek.cli.records.perf_run")
def produce() -> None:
    """Send records of random bytes; print records/s, bytes/s and the latency from send to acknowledgement.

    The figures are those of one client process and the broker together. Records that the broker does not take
    within --timeout (30 seconds by default) end the measurement. Ctrl-C ends it too, and prints the figures until then.

    \b
    Examples:
      odradek perf produce bench --records 1000000 --size 100
      odradek perf produce bench --rate 1000 --linger-ms 0 --output json
    """


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-n", "--records", type=WholeNumber(min=1), default=100_000, show_default=True)
@click.option("--fetch-bytes", type=WholeNumber(min=1), default=1024 * 1024, show_default=True)
@click.option("--decode", is_flag=True, help="Decode every record, as an application does.")
@session_options
@run_in("odradek.cli.records.perf_run")
def consume() -> None:
    """Read a topic from the beginning; print records/s, bytes/s and the latency of a fetch.

    The figures are those of one client process and the broker together. Batches are verified, but their records are
    decoded only with --decode.

    \b
    Examples:
      odradek perf consume bench --records 1000000
      odradek perf consume bench --decode --output json
    """
