"""The protection of a process's listeners, built from its settings before anything else is opened.

A start without a secured listener loads none of it: OpenSSL takes 4 MB and some milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.foundation.settings import Settings
from odradek.transport.secured import TlsListening

_TLS_PROTOCOLS = ("SSL", "SASL_SSL")


def tls_of_listeners(settings: Settings) -> Mapping[str, TlsListening]:
    """TLS by listener name, for those that speak it. Raises SettingError or DependencyError."""
    secured = [
        endpoint for endpoint in settings.listener_endpoints if endpoint.security_protocol in _TLS_PROTOCOLS
    ]
    if not secured:
        return {}
    from odradek.security.listener_tls import ListenerTls
    from odradek.security.tls_settings import listener_tls

    return {
        endpoint.listener_name: ListenerTls(
            listener_tls(
                settings, endpoint.listener_name, is_sasl=endpoint.security_protocol.startswith("SASL")
            )
        )
        for endpoint in secured
    }
