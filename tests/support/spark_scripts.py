"""`spark-submit` and `odradek-pipeline` for pages, with jars from this checkout instead of the network.

A page's blocks run in a network of their own, where `--packages` and `--fetch-jars` cannot be resolved. The scripts
made here drop these options and hand over the same jars, which `tests.support.java` keeps. `spark-submit` stops where a
page names another connector. Python is that of the page's environment, `PAGE_PYTHON`.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from tests.support.java import QUICK_OPTIONS, SPARK_VERSION, connector_jars, java_home
from tests.support.spark_archive import driver_options, spark_home

CONNECTOR: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"

_SCRIPT: Final = """\
#!/bin/bash
set -e
export JAVA_HOME={java_home} SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON={python} SPARK_LAUNCHER_OPTS='{launcher_options}'
export SPARK_HOME={spark_home}
kept=()
while [ $# -gt 0 ]; do
  if [ "$1" = --packages ]; then
    [ "$2" = {connector} ] || {{ echo "this machine has {connector}, not $2" >&2; exit 2; }}
    shift 2
  else
    kept+=("$1"); shift
  fi
done
exec {submit} --jars {jars} --driver-memory 512m --driver-java-options '{java_options}' \
  --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 --conf spark.driver.host=127.0.0.1 "${{kept[@]}}"
"""


_PIPELINE: Final = """\
#!/bin/bash
set -e
export JAVA_HOME={java_home} SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON={python} SPARK_LAUNCHER_OPTS='{launcher_options}'
export SPARK_HOME={spark_home}
export PYSPARK_SUBMIT_ARGS="--jars {jars} --driver-memory 512m --conf spark.ui.enabled=false \
  --driver-java-options '{java_options}' \
  --conf spark.driver.host=127.0.0.1 pyspark-shell"
kept=()
for one in "$@"; do [ "$one" = --fetch-jars ] || kept+=("$one"); done
exec {python} -m odradek_pipeline.entrypoint "${{kept[@]}}"
"""


def write_submit(folder: Path) -> Path:
    """Make `folder/spark-submit`, which goes on the PATH before PySpark's, and `folder/odradek-pipeline`.

    Raises JavaUnavailableError."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "java_home": shlex.quote(java_home()),
        "python": shlex.quote(os.environ.get("PAGE_PYTHON", sys.executable)),
        "submit": shlex.quote(str(Path(sys.prefix) / "bin" / "spark-submit")),
        "connector": CONNECTOR,
        "java_options": driver_options(),
        "launcher_options": " ".join(QUICK_OPTIONS),
        "spark_home": shlex.quote(spark_home()),
        "jars": shlex.quote(",".join(str(jar) for jar in connector_jars())),
    }
    for name, script in (("spark-submit", _SCRIPT), ("odradek-pipeline", _PIPELINE)):
        (folder / name).write_text(script.format(**values))
        (folder / name).chmod(0o755)
    return folder / "spark-submit"


if __name__ == "__main__":
    write_submit(Path(sys.argv[1]))
