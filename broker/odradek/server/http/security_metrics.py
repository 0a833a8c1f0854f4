"""The metrics of TLS and logins at the listeners of a broker or controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.foundation import metrics
from odradek.foundation.metrics import Sample
from odradek.server.secured_listeners import SecuredListeners
from odradek.transport.listener import Listener


def security_samples(secured: SecuredListeners, listeners: Iterable[Listener]) -> Iterator[Sample]:
    """Nothing for listeners without TLS and logins."""
    for listener in listeners:
        name = listener.name
        tls = secured.tls(name)
        if tls is not None:
            yield metrics.TLS_HANDSHAKES.sample(listener.handshakes_completed, name)
            yield metrics.TLS_HANDSHAKE_FAILURES.sample(listener.handshakes_failed, name)
            yield metrics.CERTIFICATE_NOT_AFTER_SECONDS.sample(tls.not_after_seconds, name)
            yield metrics.CERTIFICATE_RELOADS.sample(tls.followed.reloads, name)
            yield metrics.CERTIFICATE_RELOAD_FAILURES.sample(tls.followed.failed_reloads, name)
        for mechanism, counts in secured.logins.get(name, ()):
            yield metrics.LOGINS.sample(counts.successful, name, mechanism)
            yield metrics.LOGIN_FAILURES.sample(counts.failed, name, mechanism)
            yield metrics.LOGIN_RENEWALS.sample(counts.renewals, name, mechanism)
            yield metrics.LOGIN_RENEWAL_FAILURES.sample(counts.failed_renewals, name, mechanism)
            yield metrics.LOGINS_EXPIRED.sample(counts.expired, name, mechanism)
