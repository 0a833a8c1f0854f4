"""Error answers made from schemas: every API in every version says an error in its own shape."""

from typing import Any

import pytest

from odradek.broker.requests import failures
from odradek.broker.requests.table import HANDLERS
from odradek.foundation.errors import NotCoordinator
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey

ALL = [
    (int(api), version)
    for api, handler in HANDLERS.items()
    for version in range(handler.version_min, handler.version_max + 1)
]


@pytest.mark.parametrize(("api", "version"), ALL, ids=lambda value: str(value))
def test_every_answer_can_be_sent(api: int, version: int) -> None:
    message = failures.answer(api, version, messages.request(api, version), NotCoordinator("elsewhere"))
    assert message is not None
    frame = codec.encode_response(api, version, 1, message)
    assert codec.decode_response(api, version, memoryview(frame)[4:]) == (1, message)


def answer(api: ApiKey, version: int, **fields: Any) -> Any:
    return failures.answer(
        api, version, messages.request(api, version, **fields), NotCoordinator("elsewhere")
    )


def test_each_thing_asked_for_has_the_error() -> None:
    groups = answer(ApiKey.DESCRIBE_GROUPS, 5, groups=["a", "b"]).groups
    assert [(group.group_id, group.error_code) for group in groups] == [("a", 16), ("b", 16)]
    topics = answer(
        ApiKey.LIST_OFFSETS,
        5,
        topics=[{"name": "t", "partitions": [{"partition_index": 3, "timestamp": -1}]}],
    ).topics
    (partition,) = topics[0].partitions
    assert (topics[0].name, partition.partition_index, partition.error_code) == ("t", 3, 16)
    (created,) = answer(
        ApiKey.CREATE_TOPICS, 7, topics=[{"name": "n", "num_partitions": 1, "replication_factor": 1}]
    ).topics
    assert (created.name, created.error_code, created.error_message) == ("n", 16, "elsewhere")
    (coordinator,) = answer(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["g"]).coordinators
    assert (coordinator.key, coordinator.error_code) == ("g", 16)
    (producers,) = answer(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": [4]}]
    ).topics
    assert [(answered.partition_index, answered.error_code) for answered in producers.partitions] == [(4, 16)]
    (transaction,) = answer(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        5,
        transactions=[
            {
                "transactional_id": "x",
                "producer_id": 1,
                "producer_epoch": 0,
                "topics": [{"name": "t", "partitions": [2]}],
            }
        ],
    ).results_by_transaction
    (result,) = transaction.topic_results[0].results_by_partition
    assert (transaction.transactional_id, result.partition_index, result.partition_error_code) == ("x", 2, 16)


def test_an_error_at_the_top_stays_at_the_top() -> None:
    assert answer(ApiKey.HEARTBEAT, 4, group_id="g").error_code == 16
    assert answer(ApiKey.LIST_GROUPS, 4).groups == ()
