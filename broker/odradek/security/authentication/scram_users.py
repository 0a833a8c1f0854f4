"""Whom a broker knows by SCRAM: the users of the registry (KIP-554). Unknown names get a salt and iterations too.

A stranger may ask for any name, at any broker, as often as it likes. What an unknown name gets is the same each time,
at every broker and after a restart. It depends on the name and on a secret of the cluster. It also looks like what real
users have. Their tools differ in iterations and in salts. So a made-up user takes the look of a real one by chance,
each look as often as the real users have it. A user more or less changes the look of few unknown names.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.limits import LOOKS_OF_USERS_COUNTED_MAX
from odradek.security.authentication.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_DIGESTS,
    FindCredential,
    ScramCredential,
)

ClientConfigs = Mapping[ClientEntity, Mapping[str, str]]


def credentials_of(current: Callable[[], ClientConfigs]) -> FindCredential:
    """Finds a credential in the configs that `current` gives at the moment of a login."""

    def find(user: str, mechanism: str) -> ScramCredential | None:
        text = current().get(ClientEntity(user=user), {}).get(mechanism) if user else None
        try:
            return None if text is None else ScramCredential.of_text(text)
        except ValueError:
            return None

    return find


def describe_credentials(texts: Mapping[str, str]) -> dict[str, int]:
    """The iterations of each mechanism that a user has a readable credential for."""
    found: dict[str, int] = {}
    for mechanism in SCRAM_DIGESTS:
        if mechanism in texts:
            try:
                found[mechanism] = ScramCredential.of_text(texts[mechanism]).iterations
            except ValueError:
                continue
    return found


# Serves while the cluster has no secret yet: in a controller that is not active, where all users are unknown.
_OWN_SECRET: Final = secrets.token_bytes(32)
# Kafka's tools write a random number of 130 bits with these digits, and take the text as the salt.
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_TEXT_BITS: Final = 130
_TEXT_SIZES: Final = range(20, 27)
_FRACTION_BITS: Final = 64


class Look(NamedTuple):
    """What a stranger sees of a user. `salt_bytes` is 0 for a salt of Kafka's tools."""

    iterations: int
    salt_bytes: int


_DEFAULT: Final = {Look(ITERATIONS_MIN, SALT_BYTES): 1}


class UnknownUsers:
    """Makes credentials that no password fits, from the secret and the users of each moment."""

    def __init__(
        self,
        *,
        secret: Callable[[], bytes] = lambda: b"",
        client_configs: Callable[[], ClientConfigs] = dict,
    ) -> None:
        """`secret` is empty while the cluster has none. `client_configs` has the credentials of real users."""
        self._secret = secret
        self._client_configs = client_configs
        self._counted: ClientConfigs | None = None
        self._looks: dict[str, Mapping[Look, int]] = {}

    def credential(self, mechanism: str, user: str) -> ScramCredential:
        secret = self._secret() or _OWN_SECRET
        name = f"{mechanism} {user}"
        look = _choose_look(secret, name, self._looks_of(mechanism))
        digest = hmac.digest(secret, f"salt {name}".encode(), "sha512")
        salt = digest[: look.salt_bytes] if look.salt_bytes else _text(digest)
        size = hmac.new(b"", b"", SCRAM_DIGESTS[mechanism]).digest_size
        return ScramCredential(salt, secrets.token_bytes(size), secrets.token_bytes(size), look.iterations)

    def _looks_of(self, mechanism: str) -> Mapping[Look, int]:
        """How many real users have each look; counted again after a change of users."""
        configs = self._client_configs()
        if configs is not self._counted:
            self._counted, self._looks = configs, {}
        looks = self._looks.get(mechanism)
        if looks is None:
            texts = (one[mechanism] for one in configs.values() if mechanism in one)
            found = map(_look, islice(texts, LOOKS_OF_USERS_COUNTED_MAX))
            looks = self._looks[mechanism] = Counter(one for one in found if one is not None) or _DEFAULT
        return looks


def _look(text: str) -> Look | None:
    try:
        credential = ScramCredential.of_text(text)
    except ValueError:
        return None
    salt = credential.salt
    if credential.iterations < ITERATIONS_MIN:
        # Such a user cannot log in, and is shown as an unknown one.
        return None
    if len(salt) in _TEXT_SIZES and not salt.strip(_DIGITS):
        return Look(credential.iterations, 0)
    return Look(credential.iterations, min(len(salt), hmac.new(b"", b"", "sha512").digest_size))


def _choose_look(secret: bytes, name: str, looks: Mapping[Look, int]) -> Look:
    """One of the looks, with a chance by its weight: weighted rendezvous hashing."""

    def cost(look: Look) -> float:
        digest = hmac.digest(secret, f"look {look.iterations} {look.salt_bytes} {name}".encode(), "sha256")
        fraction = (int.from_bytes(digest[: _FRACTION_BITS // 8], "big") + 0.5) / 2**_FRACTION_BITS
        return -math.log(fraction) / looks[look]

    return min(looks, key=cost) if len(looks) > 1 else next(iter(looks))


def _text(digest: bytes) -> bytes:
    number = int.from_bytes(digest, "big") >> (len(digest) * 8 - _TEXT_BITS)
    digits = bytearray()
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))
