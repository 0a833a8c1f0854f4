"""`odradek groups reset-offsets` and `delete-offsets`: change the committed offsets of groups, after a dry run.

Both can save the offsets from before (`--save`), which `reset-offsets --from-file` restores. The file is on the disk
before anything is changed.
"""

from __future__ import annotations

import click

from odradek.cli.shared.completers import complete_groups, complete_partitions
from odradek.cli.shared.options import execute_options, session_options
from odradek.cli.shared.times import TIME_HELP
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in

topic_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    shell_complete=complete_partitions,
    help="As orders or orders:0,2; may be repeated.",
)
save_option = click.option(
    "--save",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="First write the present offsets to a file: JSON, or Kafka's CSV for *.csv.",
)


@click.command("reset-offsets")
@click.argument("group_ids", nargs=-1, metavar="[GROUP…]", shell_complete=complete_groups)
@click.option(
    "--all-groups", is_flag=True, help="Every group there is, but for those in ZooKeeper and of mirrors."
)
@topic_option
@click.option("--all-topics", is_flag=True, help="Every topic that the group has committed offsets for.")
@click.option("--to-earliest", is_flag=True, help="The first record kept.")
@click.option("--to-latest", is_flag=True, help="The end.")
@click.option(
    "--to-current", is_flag=True, help="The present offset; missing offsets are committed at the end."
)
@click.option(
    "--to-offset",
    type=WholeNumber(min=0),
    metavar="N",
    help="This offset, or the nearest that the partition holds.",
)
@click.option("--to-datetime", metavar="TIME", help=f"The first record at or after a time: {TIME_HELP}.")
@click.option(
    "--by-duration", metavar="DURATION", help="The first record at or after this long ago: 1h30m or PT1H30M."
)
@click.option("--shift-by", type=WholeNumber(), metavar="N", help="N records on, or back with a negative N.")
@click.option(
    "--from-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The offsets in a file of --save, or in a CSV of kafka-consumer-groups.sh.",
)
@click.option(
    "--from-mirror",
    metavar="SOURCE",
    help="The offsets that a mirror translated for groups of the cluster SOURCE, by its alias.",
)
@save_option
@execute_options
@session_options
@run_in("odradek.cli.groups.group_offsets_run")
def reset_offsets() -> None:
    """Move groups' committed offsets. Their consumers must be stopped first.

    --save writes the offsets from before, and --from-file restores them: an undo. It deletes commits that did not exist
    before. An offset that a partition no longer holds becomes the nearest that it holds. Without a topic it restores
    the whole file, and without a group all groups in it.

    The file is JSON: {"format": "odradek-offsets", "version": 1, "offsets": [{"group", "topic", "partition", "offset",
    "leader_epoch", "metadata"}, …]}; an offset of null stands for no committed offset. A *.csv file is the CSV of
    kafka-consumer-groups.sh: lines of topic,partition,offset, or of group,topic,partition,offset for several groups.

    --from-mirror reads the newest checkpoints of `odradek mirror` or MirrorMaker 2 at this cluster. They say where
    groups of another cluster can continue here. Without a topic it moves all that is mirrored, and --all-groups means
    all groups in the checkpoints.

    A group `odradek-mirror.NAME.SOURCE` has the positions of a mirror, which are offsets of the source. It takes
    --to-offset, --shift-by and --from-file, as they are given.

    \b
    Examples:
      odradek groups reset-offsets billing --topic orders --to-earliest
      odradek groups reset-offsets billing --topic orders --to-earliest --save before.json --execute
      odradek groups reset-offsets billing --from-file before.json --execute
      odradek groups reset-offsets billing --topic orders:0,1 --shift-by -100 --execute
      odradek groups reset-offsets billing --all-topics --by-duration 1h --execute
      odradek groups reset-offsets billing --from-mirror east --execute
    """


@click.command("delete-offsets")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@topic_option
@save_option
@execute_options
@session_options
@run_in("odradek.cli.groups.group_offsets_run")
def delete_offsets() -> None:
    """Delete a group's committed offsets of topics. No member may subscribe to these topics. The group then starts
    there like a new group. `--save` keeps the offsets in a file that `odradek groups reset-offsets --from-file`
    restores.

    \b
    Examples:
      odradek groups delete-offsets billing --topic orders
      odradek groups delete-offsets billing --topic orders:0,2 --save before.json --execute
    """
