"""SaslAuthenticate where it has no place; `sasl_dispatch` has the logins."""

from __future__ import annotations

from odradek.handlers.context import RequestContext
from odradek.handlers.sasl_handshake import refuse
from odradek.protocol.messages import Message
from odradek.protocol.requests.clients import SaslAuthenticateRequest


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> Message:
    """Raises IllegalSaslState, which is answered."""
    return refuse(context)
