"""Writes the batches of an asynchronous producer on an event loop of its own, so that none waits for the one before it.

    ProducerSendThread: callbacks, encoding -> this loop: partitioning, batches, requests, retries

So messages of a partition without a leader hold up no others, as long as the queue's bound allows.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.client.classic.message_sender import MessageSender, Note
from odradek.client.classic.messages import Encoder, KeyedMessage, Partitioner
from odradek.client.classic.properties import Properties
from odradek.client.own_loops import EngineThread
from odradek.network.network import Network


class BackgroundSender:
    """`submit` returns once the messages are handed over; `note` is called in a thread of this object's choice."""

    def __init__(
        self,
        properties: Properties,
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        network: Network | None = None,
    ) -> None:
        self._sender = MessageSender(
            properties,
            encoder=encoder,
            key_encoder=key_encoder,
            partitioner=partitioner,
            network=network,
            is_loop_running=True,
        )
        self._engine = EngineThread("ProducerEngine")

    def submit(self, events: Sequence[KeyedMessage], note: Note) -> None:
        """Encode here, and hand over. Waits for room in the buffer alone."""
        rows = self._sender.encode(events, note)
        if rows:
            self._engine.call(lambda: self._sender.submit_encoded(rows, note))

    def close(self) -> None:
        if not self._engine.is_closed:
            self._engine.call(self._sender.close)
            self._engine.close()
