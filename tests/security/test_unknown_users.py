"""What a login with SCRAM shows of users that do not exist: nothing by which they differ from those that do."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

from odradek.foundation.client_entities import ClientEntity
from odradek.security.authentication.scram import ITERATIONS_MIN, SALT_BYTES, ScramCredential
from odradek.security.authentication.scram_users import ClientConfigs, UnknownUsers

MECHANISM = "SCRAM-SHA-256"
SECRET = b"one secret of the cluster"
KAFKAS_SALT = b"1o0e3kq4sx2c8u5z7v9b6m0d1w"
NAMES = [f"name-{number}" for number in range(2000)]


def users(*looks: tuple[int, bytes], mechanism: str = MECHANISM) -> ClientConfigs:
    key = hashlib.sha256().digest()
    return {
        ClientEntity(user=f"user-{number}"): {mechanism: ScramCredential(salt, key, key, iterations).text}
        for number, (iterations, salt) in enumerate(looks)
    }


def shown(
    real: ClientConfigs, *, secret: bytes = SECRET, mechanism: str = MECHANISM
) -> Mapping[str, tuple[bytes, int]]:
    unknown = UnknownUsers(secret=lambda: secret, client_configs=lambda: real)
    found = {name: unknown.credential(mechanism, name) for name in NAMES}
    return {name: (one.salt, one.iterations) for name, one in found.items()}


def test_two_brokers_show_the_same_and_two_clusters_do_not() -> None:
    real = users((4096, b"s" * SALT_BYTES), (8192, b"s" * SALT_BYTES))
    one = shown(real)
    # Another broker has read the users in another order.
    assert shown(dict(reversed(list(real.items())))) == one
    assert shown(real, secret=b"another secret") != one
    assert shown(real, mechanism="SCRAM-SHA-512") != one
    salts = Counter(salt for salt, _ in one.values())
    assert len(salts) == len(NAMES)


def test_the_iterations_are_spread_as_those_of_real_users() -> None:
    real = users(*[(4096, b"s" * SALT_BYTES)] * 15, *[(8192, b"s" * SALT_BYTES)] * 5)
    before = shown(real)
    counts = Counter(iterations for _, iterations in before.values())
    assert set(counts) == {4096, 8192}
    assert 0.2 < counts[8192] / len(NAMES) < 0.3
    # Few unknown names look different when a user is added.
    after = shown({**real, ClientEntity(user="new"): real[ClientEntity(user="user-19")]})
    assert sum(before[name] != after[name] for name in NAMES) < len(NAMES) // 20


def test_salts_look_like_those_of_the_tools_that_made_the_real_ones() -> None:
    mixed = shown(users((4096, KAFKAS_SALT), (4096, b"\xff" * 64)))
    kinds = Counter(
        "kafka" if salt.isalnum() and len(salt) <= 26 else len(salt) for salt, _ in mixed.values()
    )
    assert set(kinds) == {"kafka", 64}
    sizes = {len(salt) for salt, _ in mixed.values()} - {64}
    assert sizes <= {24, 25, 26}


def test_without_users_of_the_mechanism_the_default_is_shown() -> None:
    for real in ({}, users((8192, KAFKAS_SALT), mechanism="SCRAM-SHA-512"), users((4095, KAFKAS_SALT))):
        assert {(len(salt), iterations) for salt, iterations in shown(real).values()} == {
            (SALT_BYTES, ITERATIONS_MIN)
        }


def test_users_that_are_set_later_count_from_then_on() -> None:
    real: list[ClientConfigs] = [{}]
    unknown = UnknownUsers(secret=lambda: SECRET, client_configs=lambda: real[0])
    assert unknown.credential(MECHANISM, "x").iterations == ITERATIONS_MIN
    real[0] = users((9999, KAFKAS_SALT))
    assert unknown.credential(MECHANISM, "x").iterations == 9999


def test_a_process_without_the_secret_is_consistent_by_itself() -> None:
    first, second = UnknownUsers(), UnknownUsers()
    assert first.credential(MECHANISM, "x").salt == second.credential(MECHANISM, "x").salt
    assert not any(
        salt == first.credential(MECHANISM, name).salt for name, (salt, _) in shown({}, secret=b"s").items()
    )
