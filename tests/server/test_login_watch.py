"""Connections end with the delegation token that their clients logged in with."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from odradek.broker.listeners.login_watch import LoginWatch
from odradek.metadata.image.image import ImageHolder
from odradek.network.connection import Connection
from odradek.security.authentication.delegation_tokens import BY_TOKEN, DelegationToken
from tests.support.loop import LoopClock


class Ended(Connection):
    """A connection without a socket, which notes its end."""

    def __init__(self, token_id: str) -> None:
        super().__init__(id=1, listener_name="L")
        self.state[BY_TOKEN] = token_id
        self._aborts = 0

    def abort(self) -> None:
        self._aborts += 1

    def is_aborted(self) -> bool:
        return self._aborts > 0


class World:
    """One listener whose clients logged in with the token `t`, with another and with a password."""

    def __init__(self, *, life_ms: int) -> None:
        self.clock = LoopClock()
        self.images = ImageHolder()
        self.by_token, self.by_other, self.by_password = (Ended(one) for one in ("t", "other", ""))
        connections = dict.fromkeys((self.by_token, self.by_other, self.by_password))
        listener = cast(Any, type("Listener", (), {"connections": connections}))
        self.show(t=self.token("t", life_ms), other=self.token("other", 10**9))
        self.watch = LoginWatch(self.images, lambda: [listener], now_ms=self.clock.wall_ms)

    def token(self, token_id: str, life_ms: int, *, max_ms: int = 10**9) -> DelegationToken:
        now_ms = self.clock.wall_ms()
        return DelegationToken(token_id, "User:a", "User:a", (), now_ms, now_ms + max_ms, now_ms + life_ms)

    def show(self, **tokens: DelegationToken) -> None:
        self.images.replace(replace(self.images.current, tokens=tokens))

    def stop(self) -> None:
        self.watch.stop()
        assert not self.by_other.is_aborted()
        assert not self.by_password.is_aborted()


@pytest.mark.parametrize("life_ms", [1_000, 600_000])
async def test_a_token_ends_by_itself(life_ms: int) -> None:
    world = World(life_ms=life_ms)
    await asyncio.sleep(life_ms / 1000 - 0.5)
    assert not world.by_token.is_aborted()
    await asyncio.sleep(1)
    assert world.by_token.is_aborted()
    world.stop()


async def test_a_token_is_deleted() -> None:
    world = World(life_ms=600_000)
    world.show(other=world.token("other", 10**9))
    assert world.by_token.is_aborted()
    world.stop()


async def test_a_token_whose_end_is_moved_lives_until_then() -> None:
    world = World(life_ms=2_000)
    other = world.token("other", 10**9)
    world.show(t=world.token("t", 10_000), other=other)
    await asyncio.sleep(5)
    assert not world.by_token.is_aborted()
    world.show(t=world.token("t", 60_000, max_ms=1_000), other=other)
    await asyncio.sleep(1.5)
    assert world.by_token.is_aborted()
    world.stop()


async def test_a_wall_clock_that_is_set_forward_is_noticed_within_a_minute() -> None:
    world = World(life_ms=3_600_000)
    world.clock.shift(3_600_000)
    await asyncio.sleep(61)
    assert world.by_token.is_aborted()
    world.stop()
