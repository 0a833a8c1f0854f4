"""Topics that are there are written as resources that take them over and change nothing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from helm.generate.yaml_text import read_document, read_documents
from odradek.client.results import ConfigChange, ResourceType
from odradek_operator.gateways.kubernetes import TOPICS
from odradek_operator.gateways.topic_values import ActualPartition, ActualTopic
from odradek_operator.main.cli import main
from odradek_operator.main.export import render_documents, resource_name
from tests.operator.support.broker_world import NAMESPACE, BrokerWithAdmin, BrokerWorld, play

DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def topic(name: str, config: Mapping[str, str] | None = None) -> ActualTopic:
    partition = ActualPartition(number=0, leader=0, replicas=(0, 1), in_sync=(0, 1))
    return ActualTopic(name=name, id=uuid.UUID(int=1), partitions=(partition,), config=config or {})


def test_a_document_says_what_there_is() -> None:
    found = topic(
        "Orders_v2", {"retention.ms": "5", "cleanup.policy": "compact", "remote.storage.enable": "false"}
    )
    (text,) = render_documents([found], cluster="main", namespace="shop")
    assert "# left out: remote.storage.enable=false" in text
    manifest = read_document(text)
    assert manifest["metadata"] == {"name": resource_name("Orders_v2"), "namespace": "shop"}
    assert manifest["spec"] == {
        "cluster": "main",
        "name": "Orders_v2",
        "partitions": 1,
        "replicas": 2,
        "adoptionPolicy": "AdoptIfEqual",
        "config": {"cleanup.policy": "compact", "retention.ms": 5},
    }


def test_a_name_that_is_one_stays() -> None:
    assert resource_name("orders.eu-1") == "orders.eu-1"
    assert (
        len(
            {
                resource_name(name)
                for name in ("Orders", "orders_", "orders-", "ORDERS", "orders..", "_", "__")
            }
        )
        == 7
    )


@given(st.text(alphabet="abzAZ09._-", min_size=1, max_size=249))
def test_every_topic_has_a_name_that_kubernetes_takes(name: str) -> None:
    assert DNS_NAME.fullmatch(resource_name(name))
    assert len(resource_name(name)) <= 253


@pytest.mark.integration
def test_what_was_exported_and_applied_changes_nothing(broker: BrokerWithAdmin) -> None:
    plain, odd = f"t-{uuid.uuid4().hex[:8]}", f"T_{uuid.uuid4().hex[:8]}"

    async def make(world: BrokerWorld) -> None:
        async with world.admin() as admin:
            await admin.topics.create(plain, partitions=3, configs={"retention.ms": "60000"})
            await admin.topics.create(odd, partitions=1)
            await admin.configs.alter(ResourceType.TOPIC, odd, [ConfigChange("preallocate", "true")])

    play(broker, make)
    result = CliRunner().invoke(
        main,
        [
            "export",
            "--bootstrap",
            broker.bootstrap,
            "--cluster",
            "main",
            "--namespace",
            NAMESPACE,
            plain,
            odd,
        ],
    )
    assert result.exit_code == 0, result.output
    manifests = read_documents(result.stdout)
    assert sorted(one["spec"].get("name", one["metadata"]["name"]) for one in manifests) == sorted(
        [plain, odd]
    )

    async def apply(world: BrokerWorld) -> None:
        for manifest in manifests:
            world.objects.create(manifest)
        for manifest in manifests:
            await world.topic(manifest["metadata"]["name"])
            assert world.ready(TOPICS, manifest["metadata"]["name"]) == ("True", "AsWanted")
        assert world.kubernetes.events == []

    play(broker, apply)


@pytest.mark.integration
def test_what_cannot_be_exported_is_said(broker: BrokerWithAdmin) -> None:
    asked = ["export", "--bootstrap", broker.bootstrap, "--cluster", "main", "never-made"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 1
    assert "there is no topic 'never-made'" in result.output
