"""SaslAuthenticate where it has no place; `sasl_dispatch` has the logins."""

from __future__ import annotations

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.sasl_handshake import refuse
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import SaslAuthenticateRequest


def handle(request: SaslAuthenticateRequest, context: AnyContext) -> Message:
    """Raises IllegalSaslState, which is answered."""
    return refuse(context)
