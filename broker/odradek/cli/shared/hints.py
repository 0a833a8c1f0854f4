"""Lines to copy and paste, for a user who has just started a broker.

They begin at the left margin, as Python requires. They name the command by its path when the shell would not find it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def hints(bootstrap: str, *, command: str = "odradek") -> str:
    """Lines that write to and read from the broker at `bootstrap` with four clients."""
    return f"""\
Try it: lines to paste into another terminal.

# The command line
echo hello | {command} produce greetings --bootstrap {bootstrap}
{command} consume greetings --from-beginning --bootstrap {bootstrap}

# kcat
echo hello | kcat -P -b {bootstrap} -t greetings
kcat -C -b {bootstrap} -t greetings -e

# Python, after: pip install confluent-kafka
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": "{bootstrap}"}})
producer.produce("greetings", b"hello")
producer.flush()

# Spark, in: pyspark --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0
(spark.read.format("kafka").option("kafka.bootstrap.servers", "{bootstrap}")
      .option("subscribe", "greetings").load().selectExpr("CAST(value AS STRING)").show())
"""


def command_name() -> str:
    """The command of this program: `odradek` when the shell finds it, else the path that it was started by."""
    called, found = Path(sys.argv[0]), shutil.which("odradek")
    if called.name != "odradek" or not called.exists():
        return "odradek" if found else f"{sys.executable} -m odradek"
    return "odradek" if found and called.samefile(found) else str(called.absolute())
