"""The implementations of the hot encoders and decoders that the contract holds for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from odradek.wire.protocol.hot import fetch_request, fetch_response, produce, replica_fetch


class Implementation(NamedTuple):
    """One set of the functions of `odradek.wire.protocol.hot`."""

    name: str
    parse_produce_request: Callable[..., Any]
    parse_one_partition: Callable[..., Any]
    pack_produce_response: Callable[..., bytes]
    pack_one_partition: Callable[..., bytes]
    parse_fetch_request: Callable[..., Any]
    pack_fetch_response: Callable[..., Any]
    pack_replica_fetch: Callable[..., bytes]
    parse_fetch_answer: Callable[..., Any]


# A compiled form is a row of its own.
IMPLEMENTATIONS = [
    Implementation(
        name="python",
        parse_produce_request=produce.parse_produce_request,
        parse_one_partition=produce.parse_one_partition,
        pack_produce_response=produce.pack_produce_response,
        pack_one_partition=produce.pack_one_partition,
        parse_fetch_request=fetch_request.parse_fetch_request,
        pack_fetch_response=fetch_response.pack_fetch_response,
        pack_replica_fetch=replica_fetch.pack_replica_fetch,
        parse_fetch_answer=replica_fetch.parse_fetch_answer,
    )
]
each_implementation = pytest.mark.parametrize("hot", IMPLEMENTATIONS, ids=lambda hot: hot.name)
