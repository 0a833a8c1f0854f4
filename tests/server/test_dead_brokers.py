"""Processes that end are noticed by what their machines refuse, long before their sessions with the registry end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.image import paths
from odradek.metadata.image.image import BrokerImage
from tests.support.whole_cluster import WholeCluster

SESSION_SECONDS = 60.0


async def started(
    *, brokers: int = 3, controllers: int = 2, entries: dict[str, str] | None = None
) -> WholeCluster:
    """A cluster with long sessions, whose topic t has three partitions with a replica on each broker."""
    cluster = await WholeCluster.start(brokers=brokers, controllers=controllers, entries=entries)
    for store in cluster.stores.values():
        store.session_timeout_seconds = SESSION_SECONDS
    assert await cluster.create_topic("t", partitions=3, replicas=brokers) == 0
    await cluster.until(
        lambda: all(
            "t" in cluster.image(number).topics
            and all(len(one.isr) == brokers for one in cluster.image(number).topics["t"].partitions)
            for number in cluster.brokers
        )
    )
    return cluster


def removed(cluster: WholeCluster) -> int:
    """How many registrations the active controller has deleted in its term."""
    assert cluster.active is not None and cluster.active.active_controller is not None
    return cluster.active.active_controller.dead_brokers.removed


async def test_others_lead_the_partitions_of_a_killed_broker_within_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = await started()
    host, began = cluster.host(2), asyncio.get_running_loop().time()
    await cluster.kill_broker(2, expire=False)
    await cluster.until(lambda: not {2, -1} & set(cluster.leaders("t", seen_by=1)))
    assert asyncio.get_running_loop().time() - began < 1.0
    assert f"broker 2 has ended or stands still: {host}:9092 refuses connections" in caplog.text
    await cluster.start_broker(2)
    await cluster.until(lambda: all(len(one.isr) == 3 for one in cluster.image(1).topics["t"].partitions))
    assert removed(cluster) == 1


async def test_two_that_are_killed_together_are_both_noticed() -> None:
    cluster = await started()
    began = asyncio.get_running_loop().time()
    await cluster.kill_broker(2, expire=False)
    await cluster.kill_broker(3, expire=False)
    await cluster.until(lambda: set(cluster.leaders("t", seen_by=1)) == {1})
    assert asyncio.get_running_loop().time() - began < 1.0


async def test_a_machine_that_refuses_nothing_has_the_time_of_a_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """broker.session.timeout.ms, 9 s. What a broker asked last may be two seconds older than its end."""
    cluster = await started()
    began = asyncio.get_running_loop().time()
    await cluster.kill_broker(2, expire=False, is_dark=True)
    await cluster.until(lambda: not {2, -1} & set(cluster.leaders("t", seen_by=1)))
    assert 7.0 <= asyncio.get_running_loop().time() - began <= 10.6
    assert "broker 2 has ended or stands still: it has not asked for changes for 9." in caplog.text


async def test_a_controller_that_hears_no_broker_removes_none() -> None:
    """It may be cut off itself. Its brokers would wait for it, fenced, until it is not."""
    cluster = await started()
    for broker in cluster.brokers.values():
        await broker.control.subscription.stop()
    await asyncio.sleep(30)
    assert removed(cluster) == 0


async def test_a_setting_below_the_brokers_own_waits_removes_none() -> None:
    cluster = await started(
        entries={"broker.session.timeout.ms": "1", "broker.heartbeat.interval.ms": "4000"}
    )
    await asyncio.sleep(60)
    assert removed(cluster) == 0
    began = asyncio.get_running_loop().time()
    await cluster.kill_broker(2, expire=False, is_dark=True)
    await cluster.until(lambda: removed(cluster) == 1)
    assert 4.0 <= asyncio.get_running_loop().time() - began <= 9.6


async def test_a_broker_that_starts_again_at_once_stays_a_member() -> None:
    """Its new process listens before the second look at the address."""
    cluster = await started()
    for _ in range(5):
        await cluster.kill_broker(2, expire=False)
        await cluster.start_broker(2)
        await asyncio.sleep(2)
    assert removed(cluster) == 0


@pytest.mark.parametrize("is_refusing", [True, False])
async def test_a_live_broker_that_cannot_be_reached_is_removed_once(is_refusing: bool) -> None:
    """It registers again, and without having followed the controller it is left alone."""
    cluster = await started()
    broker = cluster.brokers[2]
    await broker.control.subscription.stop()
    if is_refusing:
        cluster.network.stop_listening(cluster.host(2))
    await cluster.until(lambda: removed(cluster) == 1)
    await asyncio.sleep(30)
    assert removed(cluster) == 1
    assert 2 in cluster.image(1).brokers
    assert broker.control.membership.fenced_times == 1


async def test_another_controller_follows_a_killed_one_within_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = await started()
    first, began = cluster.active, asyncio.get_running_loop().time()
    assert first is not None
    cluster.kill_controller(first.id, expire=False)
    await cluster.until(lambda: cluster.active is not None)
    assert asyncio.get_running_loop().time() - began < 1.0
    assert f"controller {first.id} has ended" in caplog.text
    assert await cluster.create_topic("u") == 0


async def test_a_controller_and_a_broker_killed_together_are_both_noticed() -> None:
    """The next controller has never been asked by the dead broker."""
    cluster = await started()
    first, began = cluster.active, asyncio.get_running_loop().time()
    assert first is not None
    cluster.kill_controller(first.id, expire=False)
    await cluster.kill_broker(2, expire=False)
    await cluster.until(lambda: not {2, -1} & set(cluster.leaders("t", seen_by=1)))
    assert asyncio.get_running_loop().time() - began < 2.0
    assert removed(cluster) == 1


async def test_a_live_controller_that_cannot_be_reached_is_elected_again_once() -> None:
    """None of the brokers has had an answer from it since, so its new node stays."""
    cluster = await started(controllers=1)
    (controller,) = cluster.controllers.values()
    host = cluster.host(controller.id)
    cluster.network.stop_listening(host)
    cluster.network.reset(host)
    await cluster.until(lambda: controller.terms == 2)
    node = cluster.registry.tree.get(paths.CONTROLLER)
    await asyncio.sleep(30)
    assert controller.terms == 2
    assert cluster.registry.tree.get(paths.CONTROLLER) == node


async def with_machine(*, brokers: int) -> WholeCluster:
    """Brokers of their own, and 11 and 12 of one machine, which have a replica of each partition of t."""
    cluster = await WholeCluster.start(brokers=brokers, controllers=1)
    for number, wait_ms in ((11, "2000"), (12, "1300")):
        await cluster.start_broker(number, broker_machine="m", broker_heartbeat_interval_ms=wait_ms)
    for store in cluster.stores.values():
        store.session_timeout_seconds = SESSION_SECONDS
    assert await cluster.create_topic("t", partitions=8, replicas=brokers + 1) == 0
    await cluster.until(
        lambda: (
            "t" in cluster.image(1).topics
            and all(
                len(one.isr) == brokers + 1 and len({11, 12} & set(one.replicas)) == 1
                for one in cluster.image(1).topics["t"].partitions
            )
        )
    )
    return cluster


def record_departures(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The brokers that left, in a row for each election of the controller."""
    rows: list[list[int]] = []
    log_changes = Leadership._log_changes

    def note(self: Leadership, came: Iterable[BrokerImage], gone: Iterable[int]) -> None:
        left = sorted(gone)
        if left:
            rows.append(left)
        log_changes(self, came, left)

    monkeypatch.setattr(Leadership, "_log_changes", note)
    return rows


@pytest.mark.parametrize("is_dark", [False, True])
async def test_a_machine_that_dies_takes_its_brokers_in_one_election(
    is_dark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it refuses nothing: its brokers asked last at different times."""
    cluster = await with_machine(brokers=3)
    await asyncio.sleep(5)
    rows = record_departures(monkeypatch)
    for number in (11, 12):
        await cluster.kill_broker(number, expire=False, is_dark=is_dark)
    await cluster.until(lambda: not {11, 12, -1} & set(cluster.leaders("t", seen_by=1)))
    assert rows == [[11, 12]]


async def test_a_broker_that_ends_alone_takes_none_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await with_machine(brokers=2)
    rows = record_departures(monkeypatch)
    await cluster.kill_broker(12, expire=False)
    await cluster.until(lambda: not {12, -1} & set(cluster.leaders("t", seen_by=1)))
    await asyncio.sleep(20)
    assert rows == [[12]]
    assert 11 in cluster.image(1).brokers
