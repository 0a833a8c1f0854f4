"""A registry node written by hand or by another program is named in an error, and ends no task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from odradek.foundation.registry_errors import StoreError
from odradek.metadata.image import nodes

STATE = partial(nodes.read_partition_state, number=0, assignment=nodes.ReplicaAssignment(()), version=0)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (nodes.read_broker, b'{"endpoints":["PLAINTEXT://h:port"],"epoch":1}'),
        (nodes.read_broker, b'{"endpoints":[9092],"epoch":1}'),
        (nodes.read_broker, b'{"endpoints":null,"epoch":1}'),
        (nodes.read_controller, b'{"brokerid":"x"}'),
        (nodes.read_controller_address, b'{"brokerid":1,"host":"h","port":"x"}'),
        (nodes.read_topic, b'{"topic_id":"?","partitions":{}}'),
        (nodes.read_topic, b'{"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":[1]}'),
        (STATE, b'{"leader":1,"leader_epoch":0,"isr":1}'),
        (nodes.read_config, b'{"config":[]}'),
        (nodes.read_seen_brokers, b'{"epochs":{"a":1}}'),
        (nodes.read_producer_ids, b'{"block_end":"last"}'),
        (nodes.read_cluster_id, b"\xff"),
        (nodes.read_identity, b"[]"),
    ],
)
def test_what_cannot_be_read_is_named(read: Callable[[str, bytes], Any], data: bytes) -> None:
    with pytest.raises(StoreError, match=r"node /the/path .*restore it from a backup"):
        read("/the/path", data)
