"""Logins for fuzzing: a right one for those that come behind it, and frames that never add up to one."""

from __future__ import annotations

import base64
import random
import struct
from typing import Final

from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_request
from odradek.wire.protocol.messages import request
from tests.fuzz.damage import changed

PASSWORD: Final = "the right one"
ENTRIES: Final = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="fuzz" password="{PASSWORD}" user_fuzz="{PASSWORD}";'
    ),
}


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    """SaslHandshake."""
    return encode_request(
        ApiKey.SASL_HANDSHAKE,
        version,
        1,
        "fuzz",
        request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism),
    )


def token(content: bytes, version: int = 2) -> bytes:
    """SaslAuthenticate."""
    return encode_request(
        ApiKey.SASL_AUTHENTICATE,
        version,
        2,
        "fuzz",
        request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=content),
    )


def right_login() -> bytes:
    """Two requests, after which the user is `fuzz`."""
    return handshake() + token(f"\0fuzz\0{PASSWORD}".encode())


def wrong_login(chance: random.Random) -> list[bytes]:
    """Frames of a stranger: in or out of order, whole or damaged, and never with the right password."""
    nonce = chance.choice(("x", "rOprNGfwEbeRWgbNEkqO", "=,=", "ü" * 40))
    proof = base64.b64encode(chance.randbytes(chance.choice((0, 31, 32, 64)))).decode()
    tokens = [
        b"",
        b"\0\0",
        b"\0fuzz\0wrong",
        b"fuzz\0fuzz\0wrong\0more",
        f"n,,n=fuzz,r={nonce}".encode(),
        f"y,,n=fuzz,r={nonce}".encode(),
        f"n,a=root,n=fuzz,r={nonce},tokenauth=true".encode(),
        f"c=biws,r={nonce},p={proof}".encode(),
        chance.randbytes(chance.randrange(200)),
    ]
    versions = encode_request(ApiKey.API_VERSIONS, 0, 3, "fuzz", request(ApiKey.API_VERSIONS, 0))
    frames: list[bytes] = []
    for _ in range(chance.randint(1, 8)):
        kind = chance.random()
        if kind < 0.15:
            frame = versions
        elif kind < 0.45:
            mechanism = chance.choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "", "GSSAPI" * 20))
            frame = handshake(mechanism, chance.choice((0, 1)))
        elif kind < 0.6:
            raw = chance.choice(tokens)
            frame = struct.pack(">i", len(raw)) + raw
        else:
            frame = token(chance.choice(tokens), chance.choice((0, 1, 2)))
        if chance.random() < 0.3:
            body = changed(chance, frame[4:])
            frame = struct.pack(">i", len(body)) + body
        frames.append(frame)
    return frames
