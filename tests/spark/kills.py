"""Many kills of loads, replays and streams, at points drawn from a seed: KILLS=100 SEED=1 python -m tests.spark.kills

It prints a line of JSON for each kill, and ends with 1 when a table is not what the log says. The kills of one format
are on one table, so that a run also meets what several kills before it left. KINDS=stream,zombie leaves the other kinds
out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.runs.steps import (
    BATCH,
    CONNECTED,
    PLANNED,
    PUBLISHED,
    PUBLISHING,
    SHOWN,
    WRITING,
    WRITTEN,
)
from odradek_pipeline.settings.groups import READERS
from tests.spark.killed_run import COMMIT_VISIBLE, DATA_VISIBLE
from tests.spark.killing import KILLED, PARTITIONS, Table
from tests.support.peers import make_peer, topic_creator
from tests.support.spark import spark_session

KINDS: Final = ("load", "replay", "stream", "zombie")
EVERYWHERE: Final = (CONNECTED, PLANNED, WRITING, DATA_VISIBLE, COMMIT_VISIBLE, PUBLISHED)
POINTS: Final = {"parquet": (*EVERYWHERE, WRITTEN, PUBLISHING), "delta": EVERYWHERE, "iceberg": EVERYWHERE}


def main(kills: int, seed: int, kinds: Sequence[str], folder: Path) -> int:
    """Until there are `kills` of each kind. Returns an exit code."""
    random = Random(seed)
    (folder / "broker").mkdir()
    peer = make_peer(folder / "broker")
    peer.start()
    counts: Counter[str] = Counter()
    try:
        lake = folder / "lake"
        with spark_session(folder, tables=lake) as spark:
            tables = []
            for output_format in POINTS:
                name = f"lake.kills.t{uuid.uuid4().hex[:8]}"
                output = name if output_format == "iceberg" else str(folder / output_format)
                topic = topic_creator(peer.bootstrap)(PARTITIONS, retention_ms=-1)
                tables.append(Table(spark, peer.bootstrap, topic, output_format, output, folder, lake))
                tables[-1].send()
                tables[-1].finish()
            while min(counts[kind] for kind in kinds) < kills:
                # In turns a kind would keep to one format where both are as many.
                table = random.choice(tables)
                kind = min(kinds, key=lambda one: counts[one])
                counts[kind] += _kill(table, kind, random)
            for table in tables:
                table.finish()
    finally:
        peer.close()
    print(json.dumps({"kills": dict(counts), "seed": seed}), flush=True)
    return 0


def _kill(table: Table, kind: str, random: Random) -> bool:
    """One driver; whether it died, or was fenced. Raises AssertionError when the table is not what the log says."""
    points = POINTS[table.output_format]
    if kind in ("stream", "zombie"):
        points = (*(one for one in points if one != CONNECTED), BATCH, SHOWN)
    point = random.choice(points)
    began = time.monotonic()
    if kind == "load":
        code = table.load(point)
    elif kind == "stream":
        code = table.stream(point, random.choice(READERS.words))
    elif kind == "zombie":
        code = table.zombie(point)
    else:
        start = random.randint(0, 40)
        code = table.replay(point, start, start + random.randint(1, 60))
    table.check()
    seconds = round(time.monotonic() - began, 1)
    line = {"kind": kind, "format": table.output_format, "point": point, "code": code, "seconds": seconds}
    print(json.dumps(line), flush=True)
    return code in (KILLED, PipelineExitCode.FENCED)


if __name__ == "__main__":
    seed_given = int(os.environ.get("SEED") or SystemRandom().randint(1, 10**6))
    print(f"SEED={seed_given}", flush=True)
    with tempfile.TemporaryDirectory(prefix="odradek-kills-") as temporary:
        kinds_given = (os.environ.get("KINDS") or ",".join(KINDS)).split(",")
        sys.exit(main(int(os.environ.get("KILLS") or 100), seed_given, kinds_given, Path(temporary)))
