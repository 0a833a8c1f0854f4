"""`spark-submit` for pages: the one of PySpark, with the connector's jars from this checkout instead of the network.

A page's blocks run in a network of their own, where `--packages` cannot be resolved. The script made here drops that
option and hands over the same jars, which `tests.support.java` keeps. It stops where a page names another connector.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from tests.support.java import SPARK_VERSION, connector_jars, java_home

CONNECTOR: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"

_SCRIPT: Final = """\
#!/bin/bash
set -e
export JAVA_HOME={java_home} SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON={python}
kept=()
while [ $# -gt 0 ]; do
  if [ "$1" = --packages ]; then
    [ "$2" = {connector} ] || {{ echo "this machine has {connector}, not $2" >&2; exit 2; }}
    shift 2
  else
    kept+=("$1"); shift
  fi
done
exec {submit} --jars {jars} --driver-memory 512m \
  --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 --conf spark.driver.host=127.0.0.1 "${{kept[@]}}"
"""


def write_submit(folder: Path) -> Path:
    """Make `folder/spark-submit`, which goes on the PATH before PySpark's. Raises JavaUnavailableError."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "spark-submit"
    script.write_text(
        _SCRIPT.format(
            java_home=shlex.quote(java_home()),
            python=shlex.quote(sys.executable),
            submit=shlex.quote(str(Path(sys.prefix) / "bin" / "spark-submit")),
            connector=CONNECTOR,
            jars=shlex.quote(",".join(str(jar) for jar in connector_jars())),
        )
    )
    script.chmod(0o755)
    return script


if __name__ == "__main__":
    write_submit(Path(sys.argv[1]))
