"""From and to Apache Kafka 4.1.1: the copies are what its readers of committed records see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from tests.support.java import JavaUnavailableError
from tests.support.kafka_peer import KafkaPeer
from tests.support.mirroring import entries, mirrored, quicken, running, until, write
from tests.support.peers import TwoClusters, skip_or_fail
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.java, pytest.mark.thorough]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    """One node of Apache Kafka."""
    try:
        peer = KafkaPeer(tmp_path_factory.mktemp("kafka"))
        peer.start()
    except JavaUnavailableError as failure:
        skip_or_fail(str(failure))
    yield peer
    peer.close()


@pytest.mark.parametrize("is_source", [True, False], ids=["from Kafka", "to Kafka"])
@in_real_time
async def test_topics_are_copied_once_and_in_order(
    is_source: bool, kafka: KafkaPeer, clusters: TwoClusters, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    ours = clusters.source.bootstrap
    source_at, target_at = (kafka.bootstrap, ours) if is_source else (ours, kafka.bootstrap)
    kinds = {
        "plain": {},
        "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"},
        "stamped": {"message.timestamp.type": "LogAppendTime"},
        "recompressed": {},
    }
    async with Client(source_at) as source, Client(target_at) as target:
        admin = Admin(source)
        for kind, configs in kinds.items():
            await admin.topics.create(f"{unique}.{kind}", partitions=2, configs=configs)
        # The target takes another codec than the records have.
        await Admin(target).topics.create(
            f"a.{unique}.recompressed", partitions=2, configs={"compression.type": "zstd"}
        )
        for turn, compression in enumerate(("none", "gzip", "lz4", "zstd", "snappy")):
            for kind in kinds:
                await write(
                    source,
                    f"{unique}.{kind}",
                    200,
                    first=200 * turn,
                    partitions=2,
                    compression=compression,
                    transactional_id=unique if turn % 2 else None,
                    is_aborted=turn == 3,
                    keys=20 if kind == "compacted" else None,
                )
        given = entries(source_at, target_at, name=unique, topics=f"{unique}.*")
        given["config.properties.exclude"] = "compression.type, message.timestamp.type"
        async with running(given) as mirror:
            for kind in kinds:
                await until(
                    lambda kind=kind: mirrored(
                        source,
                        target,
                        f"{unique}.{kind}",
                        f"a.{unique}.{kind}",
                        is_compacted=kind == "compacted",
                    )
                )
            counters = mirror.flows[0].counters
            opened = {
                reason: key.topic.rpartition(".")[2]
                for key, of in counters.partitions.items()
                for reason in of.opened
            }
            assert opened["log-append-time"] == "stamped"
            assert opened["compression"] == "recompressed"
            assert counters.transactions["committed"] > 0
