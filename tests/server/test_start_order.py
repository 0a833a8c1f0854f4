"""What clients see of a broker that is just starting."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.local_control import LocalControl
from odradek.client.client import Client
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.settings.broker_settings import Settings
from tests.support.stories import in_real_time


@pytest.mark.integration
@in_real_time
async def test_nobody_is_told_of_a_cluster_without_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that connects while the broker starts waits for the registration."""
    early: list[asyncio.Task[int]] = []

    async def ask(port: int) -> int:
        async with Client(f"127.0.0.1:{port}") as client:
            return len(client.cluster.brokers)

    settings = Settings({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    broker = BrokerProcess(settings, control=LocalControl())
    register = broker.control.register

    async def register_late(endpoints: Sequence[Endpoint]) -> None:
        early.append(asyncio.create_task(ask(broker.listeners[0].port)))
        await asyncio.wait(early, timeout=0.1)
        assert not early[0].done()
        await register(endpoints)

    monkeypatch.setattr(broker.control, "register", register_late)
    await broker.start()
    assert await early[0] == 1
    await broker.stop()
