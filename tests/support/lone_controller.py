"""A controller with its registry and image, and requests asked of its handlers: no sockets, no logs."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.controller import Controller
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.registry.store import Store
from odradek.wire.protocol.api import ApiKey
from tests.support.handler_requests import ask_handler
from tests.support.loop import LoopClock
from tests.support.memory_registry import MemoryStore

ENDPOINTS = {"PLAINTEXT": ("broker.test", 9092), "EXTERNAL": ("outside.test", 19092)}


class LoneController:
    """Make it with `await LoneController.start(...)`."""

    def __init__(self, store: Store, entries: dict[str, str], *, seed: int = 1) -> None:
        self.store = store
        self.settings = Settings(entries)
        self.images = ImageHolder()
        self.dynamic = DynamicSettings(self.settings, self.images)
        self.controller = Controller(store, self.images, self.dynamic, LoopClock(), rng=random.Random(seed))

    @classmethod
    async def start(
        cls, entries: dict[str, str] | None = None, *, store: Store | None = None
    ) -> LoneController:
        broker = cls(store or MemoryStore(), entries or {})
        await broker.controller.start()
        await broker.controller.register_broker(endpoints=ENDPOINTS, rack="r1")
        return broker

    async def ask(self, api: ApiKey, version: int, *, listener_name: str = "PLAINTEXT", **fields: Any) -> Any:
        """The answer to a request, both having gone through their bytes."""
        broker = SimpleNamespace(
            broker_id=self.settings.effective_broker_id,
            is_broker=True,
            images=self.images,
            controller=self.controller,
            active_controller=self.controller,
            settings=self.settings,
            authorizer=None,
            mutations=None,
            optional_long_work=None,
        )
        return await ask_handler(broker, api, version, listener_name=listener_name, **fields)
