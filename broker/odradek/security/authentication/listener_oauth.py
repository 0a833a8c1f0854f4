"""OAUTHBEARER at one listener: its rules for tokens and its key set, from `sasl.oauthbearer.*`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.foundation.errors import SettingError
from odradek.security.authentication.json_web_tokens import TokenCheck, TokenRules
from odradek.security.authentication.key_set import KeySet, KeySetOptions
from odradek.security.authentication.sasl import NewExchange
from odradek.security.authentication.sasl_oauth import OauthExchange
from odradek.security.authentication.web_documents import check_address

if TYPE_CHECKING:
    from odradek.foundation.settings import Settings

logger = logging.getLogger(__name__)

MECHANISM: Final = "OAUTHBEARER"
_PREFIX: Final = "sasl.oauthbearer."
_URL: Final = f"{_PREFIX}jwks.endpoint.url"


def listener_oauth(
    settings: Settings, listener_name: str, *, now: Callable[[], float] = time.time
) -> tuple[NewExchange, KeySet]:
    """The exchange of new logins, and the keys to follow. Raises SettingError, also without a source of keys.

    `now` is in seconds since 1970.
    """

    def value(name: str) -> Any:
        return settings.listener_value(listener_name, _PREFIX + name, mechanism=MECHANISM)

    url = value("jwks.endpoint.url")
    if not url:
        raise SettingError(
            f"listener {listener_name} has {MECHANISM} and no keys to check tokens with; give {_URL}"
        )
    rules = TokenRules(
        audience=tuple(value("expected.audience") or ()),
        issuer=value("expected.issuer") or "",
        user_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
        clock_skew_seconds=max(value("clock.skew.seconds"), 0),
    )
    if not (rules.audience and rules.issuer):
        logger.warning(
            "listener %s takes tokens of any %s that its keys have signed; "
            "set %sexpected.issuer and %sexpected.audience",
            *(listener_name, "audience" if rules.issuer else "issuer", _PREFIX, _PREFIX),
        )
    keys = KeySet(
        KeySetOptions(
            listener_name,
            check_address(url, key=_URL),
            refresh_ms=value("jwks.endpoint.refresh.ms"),
            retry_backoff_ms=value("jwks.endpoint.retry.backoff.ms"),
            retry_backoff_max_ms=value("jwks.endpoint.retry.backoff.max.ms"),
        ),
        now=time.monotonic,
    )
    return partial(OauthExchange, TokenCheck(rules, keys.find, now=now).login), keys
