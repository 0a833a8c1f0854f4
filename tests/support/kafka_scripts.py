"""Apache Kafka's command-line scripts, as its distribution has them in `bin/`: for pages that name them.

Maven brings Kafka's jars and not its scripts. Each script here starts the class that Kafka's own script of that name
starts. Left out: the scripts' options for heap and logging, except `KAFKA_HEAP_OPTS`.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from tests.support.java import java_arguments, java_home, kafka_classpath, make_class_archive

_TOOLS: Final = "org.apache.kafka.tools"

CLASSES: Final = {
    "kafka-acls.sh": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions.sh": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": f"{_TOOLS}.ConsoleProducer",
    "kafka-consumer-groups.sh": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test.sh": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delete-records.sh": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log.sh": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets.sh": f"{_TOOLS}.GetOffsetShell",
    "kafka-leader-election.sh": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs.sh": f"{_TOOLS}.LogDirsCommand",
    "kafka-producer-perf-test.sh": f"{_TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions.sh": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": f"{_TOOLS}.TopicCommand",
}


def write_scripts(folder: Path) -> Path:
    """Make the scripts in `folder`, which goes on the PATH. Raises JavaUnavailableError."""
    folder.mkdir(parents=True, exist_ok=True)
    make_class_archive(kafka_classpath())
    for name, main_class in CLASSES.items():
        command = java_arguments(main_class, [], classpath=kafka_classpath(), heap="512m")
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nexport JAVA_HOME={shlex.quote(java_home())}\nexec {shlex.join(command)} "$@"\n'
        )
        script.chmod(0o755)
    return folder


if __name__ == "__main__":
    write_scripts(Path(sys.argv[1]))
