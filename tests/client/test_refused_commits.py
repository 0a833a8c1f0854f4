"""Which groups a full disk refuses commits of, where the offsets topic cannot be described."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import cast

import pytest

from odradek.client.admin.disks import find_refused_commits
from odradek.client.client import Client
from odradek.client.metadata import ClusterInfo, TopicInfo
from odradek.client.results import GroupDescription
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC

TOPIC_AUTHORIZATION_FAILED = 29


class _Cluster:
    """A client of a cluster whose offsets topic answers with this error, or is not there at all for None."""

    def __init__(self, error_code: int | None) -> None:
        self._error_code = error_code

    async def topics(self, names: Sequence[str]) -> ClusterInfo:
        if self._error_code is None:
            return ClusterInfo(cluster_id="c", controller_id=1)
        hidden = TopicInfo(OFFSETS_TOPIC, uuid.UUID(int=0), True, partitions=(), error_code=self._error_code)
        return ClusterInfo(cluster_id="c", controller_id=1, topics={OFFSETS_TOPIC: hidden})


@pytest.mark.parametrize("error_code", [TOPIC_AUTHORIZATION_FAILED, None])
def test_no_group_is_named_where_the_offsets_topic_is_hidden(error_code: int | None) -> None:
    group = GroupDescription("g", "Stable", "classic", "consumer", "range", coordinator=1, members=())
    client = cast(Client, _Cluster(error_code))
    assert asyncio.run(find_refused_commits(client, [group])) == {}
