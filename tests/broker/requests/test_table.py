"""The table of APIs, the versions in modules, and the answer to ApiVersions agree."""

from typing import get_type_hints

import pytest

from odradek.broker.requests.loading import load
from odradek.broker.requests.table import HANDLERS
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.requests import request_type
from tests.support.whole_broker import WholeBroker

# Apache Kafka 4.4.0's client-facing ranges, unstable versions left out. `tests/compat/java/test_versions.py` compares
# them with its jar.
RANGES = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5),
    23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 6),
    29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5),
    36: (0, 2), 37: (0, 3), 42: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1),
    38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3),
    46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 57: (0, 2), 60: (0, 2),
    61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
    76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2), 83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1),
    88: (0, 1), 89: (0, 1), 90: (0, 1), 91: (0, 0), 92: (0, 0),
}  # fmt: skip


def test_the_ranges_are_those_of_kafka_4_4() -> None:
    assert {
        int(api): (handler.version_min, handler.version_max) for api, handler in HANDLERS.items()
    } == RANGES


@pytest.mark.parametrize("api", list(HANDLERS), ids=lambda api: ApiKey(api).name)
def test_each_row_has_its_module_and_the_type_of_its_request(api: int) -> None:
    handler = HANDLERS[api]
    hints = get_type_hints(load(api, HANDLERS))
    if handler.takes_frame:
        assert hints["frame"] is memoryview
    else:
        assert hints["request"] is request_type(api)


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_answers_the_table_and_produce_from_0(version: int) -> None:
    broker = await WholeBroker.start()
    fields = {} if version < 3 else {"client_software_name": "lib", "client_software_version": "1.0"}
    answer = await broker.ask(ApiKey.API_VERSIONS, version, **fields)
    answered = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert answered == {**RANGES, 0: (0, 13)}
    if version >= 3:
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert levels == {
            "group.version": 1,
            "share.version": 2,
            "streams.version": 1,
            "transaction.version": 2,
        }
        assert broker.connection.client_software == ("lib", "1.0")


@pytest.mark.parametrize(
    ("cluster", "node", "code"),
    [
        ("right", 0, 0),
        ("another", 0, 129),
        ("right", 1, 129),
        ("", 0, 129),
        ("another", -1, 42),
        (None, 0, 42),
        (None, -1, 0),
    ],
)
async def test_a_client_that_means_another_node_has_to_bootstrap_again(
    cluster: str | None, node: int, code: int
) -> None:
    """KIP-1242: both or neither, and both of this node."""
    broker = await WholeBroker.start()
    if cluster == "right":
        cluster = broker.broker.images.current.cluster_id
    if node >= 0:
        node += broker.broker.broker_id
    answer = await broker.ask(
        ApiKey.API_VERSIONS,
        5,
        client_software_name="lib",
        client_software_version="1.0",
        cluster_id=cluster,
        node_id=node,
    )
    assert int(answer.error_code) == code
    assert bool(answer.api_keys) == (code == 0)


@pytest.mark.parametrize("name", ["", "-lib", "lib.", "a b", "lib\n"])
async def test_a_client_name_that_could_spoil_logs_is_refused(name: str) -> None:
    broker = await WholeBroker.start()
    answer = await broker.ask(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version="1")
    assert answer.error_code == 42


async def test_a_version_from_the_future_is_answered_in_version_0() -> None:
    broker = await WholeBroker.start()
    frame = bytes.fromhex("0012 0063 00000007 0001 61 00")
    answer = broker.dispatcher(broker.connection, memoryview(frame))
    assert isinstance(answer, bytes)
    assert answer[4:] == bytes.fromhex("00000007 0023 00000001 0012 0000 0005")
