"""A process of attackers beside faults: `python -m tests.chaos.attackers OPTIONS`, a JSON object.

Some threads take one attack after the other at random, each on some broker or controller, with pauses. What they did
goes to standard error, a line each. It prints `ready` at once, and ends when its standard input ends.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from odradek.wire.records.compression import Compression
from tests.attack.attacks import ATTACKS, Address, Attack, Sockets
from tests.attack.freezes import ask, bomb, half_open, of_names
from tests.support.large_requests import ROWS
from tests.support.plain_client import ConnectionLostError, PlainClient

THREADS: Final = 2
# Below that of brokers and honest clients, as if attackers had a machine of their own.
_NICENESS: Final = 10
_PAUSE_SECONDS: Final = (0.1, 1.0)
_NAMES: Final = (100, 2_000, 20_000)
_BOMB_BYTES: Final = 32 << 20
_HARMLESS: Final = ("metadata", "find coordinator", "offset fetch", "offset delete", "list offsets", "fetch")


def attacks(topic: str) -> dict[str, Attack]:
    """All there are, by name. None of them changes anything but `topic`."""
    found = dict(ATTACKS)
    for row in _HARMLESS:
        assert row in ROWS
        for count in _NAMES:
            found[f"{row} of {count}"] = of_names(row, count)
    for codec in (Compression.ZSTD, Compression.GZIP, Compression.LZ4):
        found[f"a bomb of {codec.name}"] = _bomb(topic, codec)
    found["plain bytes like TLS"] = half_open(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 100)
    return found


def _bomb(topic: str, codec: Compression) -> Attack:
    def attack(address: Address) -> Sockets:
        ask(address, bomb(codec, _BOMB_BYTES, topic), seconds_max=10)
        return []

    return attack


def live(options: dict[str, Any], number: int, is_over: threading.Event) -> None:
    """One attacker."""
    chance = random.Random(f"{options['seed']} {number}")
    topic = options["attacked"]
    if number == 0:
        _make_topic(options["addresses"][0], topic)
    every = attacks(topic)
    while not is_over.wait(chance.uniform(*_PAUSE_SECONDS)):
        name = chance.choice(sorted(every))
        host, _, port = chance.choice(options["addresses"]).rpartition(":")
        held: Sockets = []
        with suppress(OSError):
            held = every[name]((host, int(port)))
        print(f"{name} at {host}:{port}", file=sys.stderr, flush=True)
        is_over.wait(chance.uniform(*_PAUSE_SECONDS))
        for one in held:
            one.close()


def _make_topic(address: str, topic: str) -> None:
    """A compacted topic: its batches are decompressed as they come. Where there is none, nothing is."""
    host, _, port = address.rpartition(":")
    with suppress(OSError, AssertionError, ConnectionLostError), PlainClient(int(port), host=host) as client:
        client.create_topic(topic, cleanup_policy="compact")


def main(options: dict[str, Any]) -> None:
    os.nice(_NICENESS)
    is_over = threading.Event()
    for number in range(THREADS):
        name = f"attacker-{number}"
        threading.Thread(target=live, args=(options, number, is_over), name=name, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    is_over.set()
    # An attack under way is of no use any more.
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
