"""A viewer's own login at a cluster: a client with that user's name and password, or with a token.

The brokers judge it. A viewer that is let in has a client, and through it the rights of that user and no others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.console.clusters import ClusterSlots, ClusterSource, ConsoleCluster
from odradek.foundation.console_limits import CONSOLE_LOGIN_CHARACTERS_MAX
from odradek.foundation.errors import InvalidRequest, OdradekError, SettingError
from odradek.network.secured import LoginFailed
from odradek.security.authentication.credentials import Credentials
from odradek.security.authentication.oauth_documents import GivenToken
from odradek.security.authentication.scram import check_user_name

logger = logging.getLogger(__name__)

OAUTHBEARER: Final = "OAUTHBEARER"
_PLAIN: Final = "PLAIN"


class LoginDeniedError(OdradekError):
    """The cluster does not let this user in."""


class ClusterAwayError(OdradekError):
    """No broker answers, so no viewer can log in."""


@dataclass(frozen=True, slots=True)
class LoginSource:
    """How viewers log in at a cluster. `new_client` makes the client of one login."""

    cluster: ClusterSource
    mechanism: str
    new_client: Callable[[Credentials], Client]

    @property
    def takes_tokens(self) -> bool:
        """Whether an identity provider names the viewers."""
        return self.mechanism == OAUTHBEARER


def make_credentials(source: LoginSource, user: str, password: str) -> Credentials:
    """The login of a user. Raises InvalidRequest for what can be none."""
    if source.takes_tokens:
        raise InvalidRequest(f"cluster {source.cluster.name} asks an identity provider for your name")
    if max(len(user), len(password)) > CONSOLE_LOGIN_CHARACTERS_MAX or "\0" in user + password:
        raise InvalidRequest("this can be no name or no password of a user")
    if source.mechanism != _PLAIN:
        try:
            check_user_name(user)
        except SettingError as failure:
            raise InvalidRequest(str(failure)) from failure
    return Credentials(source.mechanism, user, password)


def make_token_credentials(token: str, *, issuer: str) -> Credentials:
    """The login with a token of an identity provider."""
    return Credentials(OAUTHBEARER, tokens=GivenToken(token, issuer=issuer))


async def log_in(source: LoginSource, credentials: Credentials, slots: ClusterSlots) -> ConsoleCluster:
    """The cluster as this user sees it. Raises LoginDeniedError and ClusterAwayError."""
    cluster = ConsoleCluster(source.cluster, client=source.new_client(credentials), slots=slots)
    try:
        await cluster.client.connect()
    except (ConnectionFailed, ClientTimeout) as failure:
        await cluster.close()
        if _is_refusal(failure):
            raise LoginDeniedError(
                f"cluster {source.cluster.name} does not let you in: {failure}"
            ) from failure
        # Addresses of brokers are for viewers with a login.
        logger.warning("no login at cluster %s: %s", source.cluster.name, failure)
        raise ClusterAwayError(
            f"cluster {source.cluster.name} does not answer, so no login is possible; the console's log says why"
        ) from failure
    except BaseException:
        await cluster.close()
        raise
    return cluster


def _is_refusal(failure: BaseException) -> bool:
    """Whether a broker has refused the login, and was not only away."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, LoginFailed):
            return True
        cause = cause.__cause__
    return False
