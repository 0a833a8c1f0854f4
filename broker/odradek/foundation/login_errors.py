"""Errors of logins and of the credentials for them."""

from __future__ import annotations

from odradek.foundation.errors import RequestError


class UnsupportedSaslMechanism(RequestError):
    """The mechanism of a login is not enabled."""


class IllegalSaslState(RequestError):
    """A request of a login has no place at this moment."""


class SaslAuthenticationFailed(RequestError):
    """A login failed."""


class DuplicateResource(RequestError):
    """A request names something twice."""


class UnacceptableCredential(RequestError):
    """A credential does not keep to the rules of its mechanism."""
