"""The oldest Apache Kafka that pages name is one that the client's own versions of requests fit.

Versions are those that the modules of the client declare beside their requests. Those of Apache Kafka 1.1 are in its
source (`org.apache.kafka.common.requests`, 1.1.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pytest

from odradek.client import client, group_metadata
from odradek.client.admin import groups, logs, topics, versions
from odradek.client.classic import simple_consumer
from odradek.client.consumer import fetches, membership
from odradek.client.producer import requests, transaction_requests
from odradek.wire.protocol.api import ApiKey
from tests.support.broker_process import CHECKOUT

Versions = tuple[int, int]

# The newest version of each request that Apache Kafka 1.1 takes.
OF_KAFKA_1_1: Final = {
    ApiKey.PRODUCE: 5,
    ApiKey.FETCH: 7,
    ApiKey.LIST_OFFSETS: 2,
    ApiKey.METADATA: 5,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.JOIN_GROUP: 2,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.SYNC_GROUP: 1,
    ApiKey.DESCRIBE_GROUPS: 1,
    ApiKey.LIST_GROUPS: 1,
    ApiKey.API_VERSIONS: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DELETE_RECORDS: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.ADD_PARTITIONS_TO_TXN: 0,
    ApiKey.END_TXN: 0,
    ApiKey.CREATE_PARTITIONS: 0,
    ApiKey.DELETE_GROUPS: 0,
}
OF_THE_CLIENT: Final[dict[ApiKey, Iterable[Versions]]] = {
    ApiKey.PRODUCE: [requests.PRODUCE_VERSIONS, requests.TRANSACTIONAL_PRODUCE_VERSIONS[False]],
    ApiKey.FETCH: [fetches.FETCH_VERSIONS],
    ApiKey.LIST_OFFSETS: [logs.LIST_OFFSETS_VERSIONS, simple_consumer.LIST_OFFSETS_VERSIONS],
    ApiKey.METADATA: [client.METADATA_VERSIONS],
    ApiKey.OFFSET_COMMIT: [group_metadata.COMMIT_VERSIONS],
    ApiKey.OFFSET_FETCH: [groups.OFFSET_FETCH_VERSIONS],
    ApiKey.FIND_COORDINATOR: client.FIND_COORDINATOR_VERSIONS.values(),
    ApiKey.JOIN_GROUP: [membership.JOIN_VERSIONS],
    ApiKey.HEARTBEAT: [membership.HEARTBEAT_VERSIONS],
    ApiKey.LEAVE_GROUP: [membership.LEAVE_VERSIONS],
    ApiKey.SYNC_GROUP: [membership.SYNC_VERSIONS],
    ApiKey.DESCRIBE_GROUPS: [groups.DESCRIBE_VERSIONS],
    ApiKey.LIST_GROUPS: [groups.LIST_VERSIONS],
    ApiKey.API_VERSIONS: [versions.API_VERSIONS_VERSIONS],
    ApiKey.CREATE_TOPICS: [topics.CREATE_VERSIONS],
    ApiKey.DELETE_TOPICS: [topics.DELETE_VERSIONS],
    ApiKey.DELETE_RECORDS: [logs.DELETE_RECORDS_VERSIONS],
    ApiKey.INIT_PRODUCER_ID: [
        requests.INIT_PRODUCER_ID_VERSIONS,
        transaction_requests.INITIALIZE_VERSIONS[False],
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [transaction_requests.ADD_PARTITIONS_VERSIONS],
    ApiKey.END_TXN: [transaction_requests.END_VERSIONS[False]],
    ApiKey.CREATE_PARTITIONS: [topics.CREATE_PARTITIONS_VERSIONS],
    ApiKey.DELETE_GROUPS: [groups.DELETE_VERSIONS],
}


@pytest.mark.parametrize("api", OF_KAFKA_1_1, ids=lambda api: api.name)
def test_the_oldest_version_of_a_request_is_one_of_kafka_1_1(api: ApiKey) -> None:
    assert max(lowest for lowest, _ in OF_THE_CLIENT[api]) <= OF_KAFKA_1_1[api]


@pytest.mark.parametrize("page", ["python-client.md", "clients.md"])
def test_pages_name_that_broker_and_no_other_as_the_oldest(page: str) -> None:
    text = (CHECKOUT / "docs" / page).read_text()
    named = re.findall(
        r"(?:need )?Apache Kafka (?:from )?(\d+\.\d+)(?: on| or newer)", " ".join(text.split())
    )
    assert named and set(named) == {"1.1"}


def test_no_page_says_that_the_client_knows_no_security() -> None:
    """`PLAINTEXT` only was true once. The property that asks for more is shown, and its block runs."""
    text = " ".join((CHECKOUT / "docs" / "python-client.md").read_text().split())
    assert not re.search(r"(?i)plaintext (?:alone|only)|only plaintext|without (?:tls|encryption)", text)
    assert '"security.protocol": "SASL_PLAINTEXT"' in text
