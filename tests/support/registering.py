"""A broker that registers, as tests of membership see it."""

from __future__ import annotations

from typing import Any

from odradek.foundation.clock import SystemClock
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.image import BrokerImage
from odradek.metadata.image.registration import BrokerRegistration, Registrant, RegistrationCallbacks
from odradek.metadata.registry.store import Store
from tests.support.registries import Callbacks, SharedRegistry


class Member:
    """One broker, and the callbacks that it got."""

    def __init__(
        self,
        store: Store,
        *,
        broker_id: int = 1,
        identity: str = "directory-1",
        port: int = 9092,
        wait_seconds: float | None = None,
    ) -> None:
        self.store = store
        self.callbacks = Callbacks()
        self.registration = BrokerRegistration(
            store,
            SystemClock(),
            Registrant(
                broker_id=broker_id,
                endpoints={"PLAINTEXT": ("::1", port)},
                protocols={"PLAINTEXT": "PLAINTEXT"},
                identity=identity,
                rack="r1",
            ),
            RegistrationCallbacks(
                on_fenced=self.callbacks.note("fenced"),
                on_registered=self.callbacks.note("registered"),
                on_refused=self.callbacks.note("refused"),
                on_silent=self.callbacks.note("silent"),
                on_answering=self.callbacks.note("answering"),
            ),
            wait_seconds=wait_seconds,
        )

    @classmethod
    async def of(cls, world: SharedRegistry, **arguments: Any) -> Member:
        return cls(await world.open(), **arguments)

    async def start(self) -> BrokerImage:
        """As after an unclean stop."""
        return await self.registration.start(has_all=False)

    def serving_as(self) -> BrokerImage | None:
        return self.registration.broker

    async def leave(self) -> None:
        await self.registration.stop()
        await self.store.close()


async def registered(store: Store, broker_id: int = 1) -> BrokerImage:
    path = paths.broker(broker_id)
    return nodes.read_broker(path, (await store.get(path)).data)
