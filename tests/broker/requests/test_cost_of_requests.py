"""The cost of a request is linear in its elements, with an authorizer that denies everything.

`tests/fuzz/test_largest_requests.py` asks the same without an authorizer. Four times the elements may cost eight times
the processor's time: quadratic cost is sixteen.
"""

from __future__ import annotations

import gc
import inspect
import logging
import time
from collections.abc import Iterator

import pytest

from odradek.network.connection import Connection
from odradek.wire.protocol.api import ApiKey
from tests.support.costs import set_heap_aside
from tests.support.large_requests import ROWS, LargeRequest
from tests.support.loop import run
from tests.support.rights import DELETE, DESCRIBE, GROUP, READ, acl
from tests.support.whole_broker import WholeBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
RATIO_MAX = 8


@pytest.fixture(autouse=True)
def _no_lines() -> Iterator[None]:
    """A line for each denied name would be measured too."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def _seconds(request: LargeRequest, count: int) -> float:
    """Processor time of a broker that answers the request, with a known topic and group."""
    set_heap_aside()
    whole = await WholeBroker.start(AUTHORIZER)
    await whole.create_topic("known")
    # The groups may be described, their topics not: each name is looked at.
    await whole.broker.control.controller.create_acls(
        [acl(operation, GROUP, "*", principal="User:*") for operation in (DESCRIBE, READ, DELETE)]
    )
    dispatch = whole.broker.listeners[0]._dispatch
    body = request.body(count)
    connection = Connection(id=1, listener_name="PLAINTEXT", peer=("client.test", 5000))
    gc.collect()
    gc.disable()
    begin = time.thread_time()
    answer = dispatch(connection, body)
    if inspect.isawaitable(answer):
        answer = await answer
    seconds = time.thread_time() - begin
    gc.enable()
    assert answer is not None
    await whole.broker.stop()
    return seconds


def _assert_linear(name: str, *, count: int) -> None:
    request = ROWS[name]
    ratios = []
    for _ in range(4):  # Other work of the machine may disturb one measurement: the best of them counts.
        few, many = (run(_seconds(request, size)) for size in (count, 4 * count))
        ratios.append(many / few)
        if ratios[-1] < RATIO_MAX:
            return
    raise AssertionError(f"four times the elements of {name!r} cost {min(ratios):.1f} times as much")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ROWS)
def test_every_large_request_costs_as_much_as_it_has(name: str) -> None:
    _assert_linear(name, count=5000)


def test_every_api_with_elements_has_a_large_request() -> None:
    """What is missing has no array, or is sent among brokers and controllers alone."""
    from odradek.broker.requests.table import HANDLERS
    from odradek.wire.protocol.schema import REQUEST, fields_of, message_class

    with_arrays = {
        api
        for api, handler in HANDLERS.items()
        if any(field.is_array for field in fields_of(message_class(api, handler.version_max, REQUEST)))
    }
    covered = {row.api for row in ROWS.values()}
    missing = {ApiKey(api).name for api in with_arrays - covered}
    assert missing <= {
        "ALTER_CONFIGS", "ALTER_PARTITION", "CREATE_DELEGATION_TOKEN", "DESCRIBE_CLIENT_QUOTAS",
        "DESCRIBE_DELEGATION_TOKEN", "LIST_CONFIG_RESOURCES", "UPDATE_FEATURES",
    }, missing  # fmt: skip
