"""Errors of logins, of the credentials for them, and of rights."""

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


class DelegationTokenAuthDisabled(RequestError):
    """No secret for delegation tokens is set."""


class DelegationTokenNotFound(RequestError):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatch(RequestError):
    """The client neither owns a delegation token nor may renew it."""


class DelegationTokenRequestNotAllowed(RequestError):
    """A client without a login, or one that logged in with a delegation token, asks for tokens."""


class DelegationTokenAuthorizationFailed(RequestError):
    """The client may not make a delegation token for another user."""


class DelegationTokenExpired(RequestError):
    """A delegation token has ended."""


class InvalidPrincipalType(RequestError):
    """A principal that is no user is named where users only may be."""


class ClusterAuthorizationFailed(RequestError):
    """The principal may not do this to the cluster."""


class TopicAuthorizationFailed(RequestError):
    """The principal may not do this to the topic."""


class SecurityDisabled(RequestError):
    """There is no authorizer, so there are no ACLs to show or change."""


class GroupAuthorizationFailed(RequestError):
    """The principal may not do this to the group."""
