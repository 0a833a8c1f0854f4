"""SCRAM's credentials in the configs of users, as the registry keeps them (KIP-554)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.foundation.client_entities import ClientEntity
from odradek.security.authentication.sasl_scram import FindCredential
from odradek.security.authentication.scram import SCRAM_DIGESTS, ScramCredential

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


def described(texts: Mapping[str, str]) -> dict[str, int]:
    """The iterations of each mechanism that a user has a readable credential for."""
    found: dict[str, int] = {}
    for mechanism in SCRAM_DIGESTS:
        if mechanism in texts:
            try:
                found[mechanism] = ScramCredential.of_text(texts[mechanism]).iterations
            except ValueError:
                continue
    return found
