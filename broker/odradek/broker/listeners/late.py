"""The door of this room: a start without a secured listener loads neither OpenSSL nor logins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek.broker.listeners.login_watch import LoginWatch as LoginWatch
    from odradek.broker.requests.sasl_dispatch import SaslDispatcher as SaslDispatcher
    from odradek.network.secured import SecureNetwork as SecureNetwork
    from odradek.network.secured import connection_security as connection_security
    from odradek.security.authentication.delegation_tokens import (
        tokens_as_credentials as tokens_as_credentials,
    )
    from odradek.security.authentication.listener import listener_sasl as listener_sasl
    from odradek.security.authentication.scram_users import UnknownUsers as UnknownUsers
    from odradek.security.authentication.scram_users import credentials_of as credentials_of
    from odradek.security.tls.listener import ListenerTls as ListenerTls
    from odradek.security.tls.listener import listener_tls as listener_tls
else:
    __getattr__ = open_late(
        __name__,
        {
            "LoginWatch": "odradek.broker.listeners.login_watch",
            "SaslDispatcher": "odradek.broker.requests.sasl_dispatch",
            "SecureNetwork": "odradek.network.secured",
            "connection_security": "odradek.network.secured",
            "tokens_as_credentials": "odradek.security.authentication.delegation_tokens",
            "listener_sasl": "odradek.security.authentication.listener",
            "UnknownUsers": "odradek.security.authentication.scram_users",
            "credentials_of": "odradek.security.authentication.scram_users",
            "ListenerTls": "odradek.security.tls.listener",
            "listener_tls": "odradek.security.tls.listener",
        },
    )
