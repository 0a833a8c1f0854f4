"""Which log directory holds which partition, written into every one of them.

A broker with several directories must know what a failed one held: otherwise its partitions would be made anew,
empty, in another. The file is Odradek's own, `odradek-placement`, one JSON object of directory to names; Kafka
passes it over. A broker with one directory needs none and writes none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.log.files import Disk

logger = logging.getLogger(__name__)

PLACEMENT_FILE: Final = "odradek-placement"


def write_placement(disk: Disk, paths: Iterable[str], names_by_path: Mapping[str, list[str]]) -> None:
    """Replace the file in each of `paths`. Raises OSError."""
    data = json.dumps(names_by_path, sort_keys=True).encode()
    for path in paths:
        disk.replace(f"{path}/{PLACEMENT_FILE}", data, sync=False)


def read_placement(disk: Disk, paths: Iterable[str]) -> dict[str, set[str]]:
    """What the files in `paths` say, together; a damaged one is passed over. Raises OSError."""
    found: dict[str, set[str]] = {}
    for path in paths:
        try:
            known = json.loads(disk.read(f"{path}/{PLACEMENT_FILE}"))
            for directory, names in known.items():
                found.setdefault(directory, set()).update(names)
        except FileNotFoundError:
            continue
        except (ValueError, AttributeError, TypeError) as error:
            logger.warning("%s/%s cannot be read and is passed over: %s", path, PLACEMENT_FILE, error)
    return found
