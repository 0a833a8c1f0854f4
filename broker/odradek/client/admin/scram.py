"""Users of SCRAM: which mechanisms they have, set a password, remove it (KIP-554).

A password becomes a salted password here, so that brokers never see it. That takes milliseconds, on a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import error_for, raise_for
from odradek.foundation.errors import OdradekError
from odradek.foundation.named_tuple import NamedTuple
from odradek.security.authentication.scram import ITERATIONS_MIN, SALT_BYTES, salt_password
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.clients import (
        AlterUserScramCredentialsResponse,
        DescribeUserScramCredentialsResponse,
    )

VERSIONS: Final = (0, 0)
# As the protocol numbers them.
_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_WORDS: Final = {number: word for word, number in _MECHANISMS.items()}
_NOT_FOUND: Final = 91


class ScramPassword(NamedTuple):
    """A password for one mechanism. It is never shown."""

    user: str
    mechanism: str
    password: str
    iterations: int = ITERATIONS_MIN

    def __repr__(self) -> str:
        return f"ScramPassword({self.user}, {self.mechanism})"


class ScramRemoval(NamedTuple):
    """A user's credential for one mechanism, which is to go."""

    user: str
    mechanism: str


@checking_arguments()
class ScramAdmin:
    """The admin calls for credentials of SCRAM. All raise ClusterAuthorizationFailed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(self, users: Sequence[str] | None = None) -> dict[str, dict[str, int]]:
        """The iterations by user and mechanism, of these users or of all; one without credentials is left out."""
        answer: DescribeUserScramCredentialsResponse = await self._client.ask(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            VERSIONS,
            users=None if users is None else [{"name": user} for user in users],
        )
        raise_for(answer.error_code, answer.error_message, about="the users")
        found: dict[str, dict[str, int]] = {}
        for result in answer.results:
            if result.error_code == _NOT_FOUND:
                continue
            raise_for(result.error_code, result.error_message, about=f"the user {result.user}")
            found[result.user] = {
                _WORDS[one.mechanism]: one.iterations
                for one in result.credential_infos
                if one.mechanism in _WORDS
            }
        return found

    async def alter(
        self, passwords: Sequence[ScramPassword] = (), removals: Sequence[ScramRemoval] = ()
    ) -> Mapping[str, OdradekError | None]:
        """Set passwords and remove credentials; None or an error by user. A user may be named once only."""
        upsertions = [await asyncio.to_thread(_upsertion, one) for one in passwords]
        deletions = [{"name": one.user, "mechanism": _MECHANISMS[one.mechanism]} for one in removals]
        answer: AlterUserScramCredentialsResponse = await self._client.ask_controller(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            VERSIONS,
            answers="results",
            deletions=deletions,
            upsertions=upsertions,
        )
        return {
            one.user: error_for(one.error_code, one.error_message, about=f"the user {one.user}")
            for one in answer.results
        }


def _upsertion(one: ScramPassword) -> dict[str, object]:
    salt = os.urandom(SALT_BYTES)
    salted = salt_password(one.mechanism, one.password, salt=salt, iterations=one.iterations)
    return {
        "name": one.user,
        "mechanism": _MECHANISMS[one.mechanism],
        "iterations": one.iterations,
        "salt": salt,
        "salted_password": salted,
    }
