"""Which log directory holds which partition, written into every one of them.

A broker with several directories must know what a failed one held. Otherwise it would create these partitions, empty,
in another directory. The file is Odradek's own, `odradek-placement`: one JSON object of directory to names, which Kafka
ignores. A broker with one directory needs none and writes none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.foundation.ids import TopicPartition
from odradek.storage.files import Disk

logger = logging.getLogger(__name__)

PLACEMENT_FILE: Final = "odradek-placement"


def write_placement(disk: Disk, path: str, placed: Mapping[str, Iterable[TopicPartition]]) -> None:
    """Replace the file in the directory `path`; `placed` is directory to partitions. Raises OSError."""
    names = {directory: [str(one) for one in partitions] for directory, partitions in placed.items()}
    disk.replace(f"{path}/{PLACEMENT_FILE}", json.dumps(names, sort_keys=True).encode(), sync=False)


def read_placement(disk: Disk, paths: Iterable[str]) -> dict[str, set[TopicPartition]]:
    """The contents of the files in `paths`, together; a damaged one is passed over. Raises OSError."""
    found: dict[str, set[TopicPartition]] = {}
    for path in paths:
        try:
            known = json.loads(disk.read(f"{path}/{PLACEMENT_FILE}"))
            for directory, names in known.items():
                for name in names:
                    topic, _, partition = name.rpartition("-")
                    found.setdefault(directory, set()).add(TopicPartition(topic, int(partition)))
        except FileNotFoundError:
            continue
        except (ValueError, AttributeError, TypeError) as error:
            logger.warning("%s/%s cannot be read and is passed over: %s", path, PLACEMENT_FILE, error)
    return found
