"""SaslHandshake and SaslAuthenticate where they have no place: without SASL, or after a login (`sasl_dispatch`)."""

from __future__ import annotations

import logging
from typing import Final, NoReturn

from odradek.broker.requests.context import AnyContext
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.security_errors import IllegalSaslState
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import SaslHandshakeRequest

logger = logging.getLogger(__name__)
_LINES: Final = RateLimitedLog(logger, "requests of logins that have no place")


def handle(request: SaslHandshakeRequest, context: AnyContext) -> Message:
    """Raises IllegalSaslState, which is answered."""
    return refuse(context)


def refuse(context: AnyContext) -> NoReturn:
    """Log it and raise IllegalSaslState."""
    _LINES.warning(
        "%r wants to log in with SASL, and its listener %s has no logins, or it has logged in. "
        "Set security.protocol=PLAINTEXT or SSL at the client",
        context.connection,
        context.listener_name,
    )
    raise IllegalSaslState("This listener has no logins, or the client has logged in already.")
