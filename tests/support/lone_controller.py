"""A controller with its registry and image, and requests asked of handlers as their bytes would be: no sockets, no
logs.
"""

from __future__ import annotations

import importlib
import inspect
import random
from functools import partial
from types import SimpleNamespace
from typing import Any

from odradek.cluster.dynamic_settings import DynamicSettings
from odradek.cluster.image import ImageHolder
from odradek.controller.controller import Controller
from odradek.foundation.clock import SystemClock
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.settings import Settings
from odradek.handlers.table import HANDLERS
from odradek.protocol import codec, messages
from odradek.protocol.api import ApiKey
from odradek.protocol.framing import parse_request_header
from odradek.registry.store import Store
from tests.support.field_names import check_field_names
from tests.support.memory_registry import MemoryStore

ENDPOINTS = {"PLAINTEXT": ("broker.test", 9092), "EXTERNAL": ("outside.test", 19092)}


class LoneController:
    """Make it with `await LoneController.start(...)`."""

    def __init__(self, store: Store, entries: dict[str, str], *, seed: int = 1) -> None:
        self.store = store
        self.settings = Settings(entries)
        self.images = ImageHolder()
        self.dynamic = DynamicSettings(self.settings, self.images)
        self.controller = Controller(store, self.images, self.dynamic, SystemClock(), rng=random.Random(seed))

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
        check_field_names()
        sent = codec.encode_request(api, version, 7, "test", messages.request(api, version, **fields))
        frame = memoryview(sent)[4:]
        header = parse_request_header(frame)
        request = codec.decode_typed_request(api, version, frame, header.body_position)
        context = SimpleNamespace(
            header=header,
            response=partial(messages.response, api, version),
            listener_name=listener_name,
            principal=ANONYMOUS,
            client_host="192.0.2.7",
            broker=SimpleNamespace(
                broker_id=self.settings.effective_broker_id,
                is_broker=True,
                images=self.images,
                controller=self.controller,
                active_controller=self.controller,
                settings=self.settings,
                authorizer=None,
                mutations=None,
            ),
        )
        module = importlib.import_module(f"odradek.handlers.{HANDLERS[api].module}")
        answer = module.handle(request, context)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, bytes):
            answer = codec.encode_response(api, version, 7, answer)
        correlation_id, message = codec.decode_response(api, version, memoryview(answer)[4:])
        assert correlation_id == 7
        return message
