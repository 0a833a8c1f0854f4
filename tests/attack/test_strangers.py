"""Clients without a login: floods, slow senders, half-open TLS, lies about sizes, each API before a login."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.attack.arena import Arena
from tests.attack.attacks import ATTACKS, Attack, Sockets, announce, connected, framed, header, local

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

# The listener with logins ends most of them early.
LISTENERS = ("OPEN", "LOGIN")


def told(name: str, arena: Arena, cost: object) -> None:
    print(f"{name}: {cost}, idle {arena.idle_bytes}")


def test_peers_that_announce_and_stall_are_survived(arena: Arena) -> None:
    told("announce", arena, arena.withstands(lambda: announce(local(arena.port("OPEN")))))


@pytest.mark.thorough
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_survived(arena: Arena, attack: Attack, listener: str) -> None:
    cost = arena.withstands(lambda: attack(local(arena.port(listener))))
    told(f"{attack.__name__} at {listener}", arena, cost)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n"]
)
def test_half_open_tls_is_survived(arena: Arena, sent: bytes) -> None:
    def attack() -> Sockets:
        held = []
        for _ in range(700):
            one = connected(local(arena.port("SECURE")))
            with suppress(OSError):
                one.sendall(sent)
            held.append(one)
        return held

    told(f"half-open TLS with {sent[:3]!r}", arena, arena.withstands(attack))


@pytest.mark.thorough
def test_no_api_is_answered_before_a_login(arena: Arena) -> None:
    answered: list[tuple[int, int]] = []

    def attack() -> None:
        for api in ApiKey:
            for version in range(12):
                with suppress(OSError), connected(local(arena.port("LOGIN"))) as one:
                    one.sendall(framed(header(api, version) + bytes(64)))
                    one.shutdown(socket.SHUT_WR)
                    if one.recv(1 << 16):
                        answered.append((api, version))

    told("each API before a login", arena, arena.withstands(attack))
    assert {api for api, _ in answered} <= {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}


@pytest.mark.thorough
def test_long_names_at_a_login_leave_short_lines(arena: Arena) -> None:
    def attack() -> None:
        for number in range(60):
            with suppress(OSError), connected(local(arena.port("LOGIN"))) as one:
                one.sendall(framed(header(ApiKey.SASL_HANDSHAKE, 0) + b"\0\5PLAIN"))
                one.recv(1 << 16)
                one.sendall(framed(b"\0" + b"%d" % number * 200_000 + b"\0wrong"))
                one.recv(1 << 16)

    before = len(arena.broker.log())
    told("60 logins with names of 400 KB", arena, arena.withstands(attack))
    assert len(arena.broker.log()) - before < 100_000
