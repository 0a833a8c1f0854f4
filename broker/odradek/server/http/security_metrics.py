"""The metrics of TLS and logins at the listeners of a broker or controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.listeners.secured_listeners import SecuredListeners
from odradek.foundation import metrics
from odradek.foundation.metrics import Sample
from odradek.network.listener import Listener

if TYPE_CHECKING:
    from odradek.broker.requests.sasl_counters import LoginCounts
    from odradek.security.tls.listener import ListenerTls


def security_samples(secured: SecuredListeners, listeners: Iterable[Listener]) -> Iterator[Sample]:
    """Nothing for listeners without TLS and logins."""
    for listener in listeners:
        name = listener.name
        tls = secured.tls(name)
        if tls is not None:
            yield from tls_samples(name, tls, listener.handshakes_completed, listener.handshakes_failed)
        yield from login_samples(name, secured.logins.get(name, ()))


def tls_samples(name: str, tls: ListenerTls, completed: int, failed: int) -> Iterator[Sample]:
    """The handshakes and the certificate of the listener `name`."""
    yield metrics.TLS_HANDSHAKES.sample(completed, name)
    yield metrics.TLS_HANDSHAKE_FAILURES.sample(failed, name)
    yield metrics.CERTIFICATE_NOT_AFTER_SECONDS.sample(tls.not_after_seconds, name)
    yield metrics.CERTIFICATE_RELOADS.sample(tls.followed.reloads, name)
    yield metrics.CERTIFICATE_RELOAD_FAILURES.sample(tls.followed.failed_reloads, name)


def login_samples(name: str, logins: Iterable[tuple[str, LoginCounts]]) -> Iterator[Sample]:
    """The logins at the listener `name`, by mechanism."""
    for mechanism, counts in logins:
        yield metrics.LOGINS.sample(counts.successful, name, mechanism)
        yield metrics.LOGIN_FAILURES.sample(counts.failed, name, mechanism)
        yield metrics.LOGIN_RENEWALS.sample(counts.renewals, name, mechanism)
        yield metrics.LOGIN_RENEWAL_FAILURES.sample(counts.failed_renewals, name, mechanism)
        yield metrics.LOGINS_EXPIRED.sample(counts.expired, name, mechanism)
