"""What only controllers serve: in-sync sets, blocks of producer ids, elections, each asked as its bytes."""

import inspect
from typing import Any

import pytest

from odradek.broker.requests.context import RequestParts
from odradek.broker.requests.counters import RequestCounters
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.parts import AdminParts, ConfigParts, ControllerParts, ReplicaParts, TokenParts
from odradek.broker.requests.table import CONTROLLER_HANDLERS
from odradek.foundation.clock import SystemClock
from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.controller.requests import NewTopic
from odradek.network.connection import Connection
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support.field_names import check_field_names
from tests.support.lone_controller import ENDPOINTS, LoneController
from tests.support.memory_registry import MemoryRegistry, MemoryStore

STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID, INELIGIBLE_REPLICA, ELECTION_NOT_NEEDED = 77, 100, 107, 84


class OneController:
    """A controller whose brokers 1 and 2 are nothing but their registrations."""

    def __init__(self, one: LoneController) -> None:
        self.one = one
        leadership = Leadership(one.store, one.controller.writer, one.images, one.dynamic, one.controller)
        self.leadership = leadership
        shared = RequestParts(
            images=one.images, counters=RequestCounters(), handlers=CONTROLLER_HANDLERS, is_broker=False
        )
        settings, controller = one.settings, one.controller
        self.dispatcher = Dispatcher(
            ControllerParts(
                shared=shared,
                configs=ConfigParts(shared, broker_id=1, settings=settings, controller=controller),
                tokens=TokenParts(
                    shared, settings=settings, clock=SystemClock(), optional_controller=controller
                ),
                admin=AdminParts(shared, settings=settings, active_controller=controller, mutations=None),
                replicas=ReplicaParts(shared, new_leadership=lambda: leadership),
            )
        )

    @classmethod
    async def start(cls) -> "OneController":
        one = await LoneController.start(store=MemoryStore(MemoryRegistry()))
        await one.controller.register_broker(endpoints=ENDPOINTS, broker_id=2)
        topic = NewTopic("t", assignment={0: (1, 2), 1: (2, 1)})
        await one.controller.create_topics([topic])
        return cls(one)

    @property
    def epoch(self) -> int:
        return self.one.images.current.brokers[1].epoch

    async def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        check_field_names()
        sent = codec.encode_request(api, version, 7, "broker-1", messages.request(api, version, **fields))
        connection = Connection(id=1, listener_name="CONTROLLER")
        answer: Any = self.dispatcher(connection, memoryview(bytearray(sent))[4:])
        if inspect.isawaitable(answer):
            answer = await answer
        _, message = codec.decode_response(api, version, memoryview(answer)[4:])
        return message

    async def propose(self, version: int, *, leader_epoch: int = 0, **fields: Any) -> Any:
        topic = self.one.images.current.topics["t"]
        partition = {"partition_index": 0, "leader_epoch": leader_epoch, "partition_epoch": 0, **fields}
        return await self.ask(
            ApiKey.ALTER_PARTITION,
            version,
            broker_id=1,
            broker_epoch=self.epoch,
            topics=[{"topic_id": topic.id, "partitions": [partition]}],
        )


@pytest.mark.parametrize("version", [2, 3])
async def test_a_leader_removes_a_follower_from_the_in_sync_set(version: int) -> None:
    controller = await OneController.start()
    members: dict[int, dict[str, Any]] = {
        2: {"new_isr": [1]},
        3: {"new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": -1}]},
    }
    answer = await controller.propose(version, **members[version])
    (row,) = answer.topics[0].partitions
    assert (int(answer.error_code), int(row.error_code)) == (0, 0)
    assert (row.leader_id, row.isr, row.partition_epoch) == (1, (1,), 1)
    assert controller.one.images.current.topics["t"].partitions[0].isr == (1,)


async def test_a_broker_that_registered_again_does_not_join_the_set() -> None:
    controller = await OneController.start()
    members = [{"broker_id": 1, "broker_epoch": controller.epoch}, {"broker_id": 2, "broker_epoch": 99}]
    answer = await controller.propose(3, new_isr_with_epochs=members)
    (row,) = answer.topics[0].partitions
    assert int(row.error_code) == INELIGIBLE_REPLICA
    assert controller.one.images.current.topics["t"].partitions[0].isr == (1, 2)


async def test_deleted_topics_and_stale_broker_epochs_are_refused() -> None:
    controller = await OneController.start()
    answer = await controller.ask(
        ApiKey.ALTER_PARTITION,
        3,
        broker_id=1,
        broker_epoch=controller.epoch,
        topics=[
            {
                "topic_id": None,
                "partitions": [{"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}],
            }
        ],
    )
    assert int(answer.topics[0].partitions[0].error_code) == UNKNOWN_TOPIC_ID
    stale = await controller.ask(
        ApiKey.ALTER_PARTITION, 3, broker_id=1, broker_epoch=controller.epoch + 1, topics=[]
    )
    assert int(stale.error_code) == STALE_BROKER_EPOCH


async def test_producer_ids_are_allocated_in_blocks_to_members_only() -> None:
    controller = await OneController.start()
    api = ApiKey.ALLOCATE_PRODUCER_IDS
    first = await controller.ask(api, 0, broker_id=1, broker_epoch=controller.epoch)
    second = await controller.ask(api, 0, broker_id=1, broker_epoch=controller.epoch)
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert second.producer_id_start == 1000
    refused = await controller.ask(api, 0, broker_id=3, broker_epoch=controller.epoch)
    assert int(refused.error_code) == STALE_BROKER_EPOCH


async def test_elections_are_asked_for_by_partition_or_for_all() -> None:
    controller = await OneController.start()
    wanted = [{"topic": "t", "partitions": [0, 7]}]
    answer = await controller.ask(
        ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=wanted, timeout=1
    )
    (topic,) = answer.replica_election_results
    assert [(row.partition_id, int(row.error_code)) for row in topic.partition_result] == [
        (0, ELECTION_NOT_NEEDED),
        (7, 3),
    ]
    everything = await controller.ask(
        ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout=1
    )
    assert [(one.topic, one.partition_result) for one in everything.replica_election_results] == [("t", ())]
    odd = await controller.ask(ApiKey.ELECT_LEADERS, 2, election_type=5, topic_partitions=None, timeout=1)
    assert int(odd.error_code) == 42


async def test_a_controller_lists_its_apis() -> None:
    controller = await OneController.start()
    answer = await controller.ask(
        ApiKey.API_VERSIONS, 3, client_software_name="lib", client_software_version="1"
    )
    assert {row.api_key for row in answer.api_keys} == {int(api) for api in CONTROLLER_HANDLERS}
