"""A Cluster's authorities and certificates: made where they are missing, renewed in time, with a new key on request.

Brokers take a new certificate from their mounted Secret while they run. The operator's own certificate is in memory
only: each process makes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from odradek_operator.desired import security
from odradek_operator.desired.client_properties import client_properties
from odradek_operator.desired.names import AUTHORITY_LABEL, ROTATE_AUTHORITY_ANNOTATION
from odradek_operator.foundation.authority_keys import (
    AuthorityKeys,
    BroughtAuthority,
    KeyPolicy,
    first_keys,
    keys_of,
    step_keys,
)
from odradek_operator.foundation.certificates import (
    ORGANIZATION,
    KeyPair,
    facts_of,
    issue,
    read_authority,
    split_certificates,
)
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.settings.addresses import (
    NODE_IP,
    ExternalAddresses,
    bootstrap_address,
)
from odradek_operator.reconcilers.cluster.settings.own_secrets import read_own_secret, write_own_secret
from odradek_operator.resources.listeners import ListenerType
from odradek_operator.resources.security import OwnAuthority

_OWN_DAYS: Final = 7
_OWN_RENEWAL: Final = timedelta(days=2)
# Its owner renews it. So long before its end that has not happened, and needs a look.
_BROUGHT_END: Final = timedelta(days=7)
_ADDED: Final = (security.ADDED_CERTIFICATE_KEY, security.ADDED_PRIVATE_KEY_KEY)
# Of names in an event, which has 1,024 characters.
_NAMES_SHOWN_MAX: Final = 3


class Authorities(NamedTuple):
    """The authority of brokers and the operator, and that of clients. `problem` is of one that its owner brings."""

    cluster: AuthorityKeys
    clients: AuthorityKeys
    problem: str | None = None


class NoAuthority(Exception):
    """An authority is to be brought, and is not there."""

    is_expected = True


class _Own(NamedTuple):
    authority: str
    properties: Mapping[str, str]
    until: datetime
    pair: KeyPair


@dataclass(slots=True)
class OperatorCertificates:
    """The operator's own certificates, by Cluster. Their keys are nowhere else."""

    _known: dict[Key, _Own] = field(default_factory=dict)

    def client_properties(
        self, key: Key, bootstrap: str, authority: AuthorityKeys, *, now: datetime
    ) -> Mapping[str, str]:
        """Kafka's client properties by which the operator connects to a Cluster's brokers."""
        known = self._known.get(key)
        if (
            known is None
            or known.authority != authority.admitted
            or known.until - now < _OWN_RENEWAL
            or known.properties["bootstrap.servers"] != bootstrap
        ):
            pair = None if known is None or not authority.former_signs else known.pair
            # Brokers know a new authority only when they have read their Secret again: what they know is kept.
            if pair is None or not authority.has_signed(pair.certificate, now=now, renewal=_OWN_RENEWAL):
                name, days = security.OPERATOR_NAME, _OWN_DAYS
                pair = issue(authority.issuing, name, organization=ORGANIZATION, days=days, now=now)
            properties = client_properties(bootstrap, "SSL", authority=authority.admitted, credential=pair)
            known = _Own(authority.admitted, properties, facts_of(pair.certificate).not_after, pair)
            self._known[key] = known
        return known.properties

    def forget(self, key: Key) -> None:
        """A Cluster is gone."""
        self._known.pop(key, None)


async def settle_authorities(run: ReconcileRun) -> Authorities | None:
    """The Cluster's authorities, made or renewed where it is time; None where no listener needs a certificate.

    The operator connects to the brokers by the first from now on. Raises NoAuthority, ObjectsOfOthers, KubernetesError.
    """
    context = run.context
    if not security.needs_certificates(context.spec):
        return None
    wanted = context.spec.certificates
    trusted = await _read_trusted(run)
    cluster, problem = await _ensure_authority(
        run, "cluster-ca", f"{context.name} brokers", own=wanted.cluster_authority, trusted=trusted
    )
    clients, clients_problem = await _ensure_authority(
        run, "clients-ca", f"{context.name} clients", own=wanted.clients_authority, trusted=trusted
    )
    if security.is_secured(context.spec):
        bootstrap = context.own_bootstrap
        properties = run.certificates.client_properties(
            run.key, bootstrap, cluster, now=run.environment.now()
        )
        await run.admin.secure(bootstrap, properties, run.key)
    return Authorities(cluster, clients, problem or clients_problem)


async def settle_broker_certificate(
    run: ReconcileRun, authorities: Authorities, addresses: ExternalAddresses
) -> None:
    """The certificate of all brokers, with the names that they are reached by now.

    One that a lost authority has signed is not replaced for the sake of a name: clients may trust nothing else. The
    name is in a second certificate then, which brokers show where they advertise a host that the first is not for.
    """
    context = run.context
    wanted = security.broker_names(context, _hosts(run, addresses))
    secret = await read_own_secret(run, "broker-tls")
    pair, added = _read_pair(secret), _read_pair(secret, *_ADDED)
    if pair is None or not _is_good(run, pair, authorities.cluster):
        pair = None
    if added is not None and not _serves(run, added, authorities.cluster, wanted):
        added = None
    if pair is not None and wanted <= facts_of(pair.certificate).names:
        added = None
    elif pair is not None and authorities.cluster.cannot_sign_again(pair.certificate):
        if added is None:
            added = _issue(run, authorities.cluster, wanted)
            missing = sorted(wanted - facts_of(pair.certificate).names)
            await run.report_event("CertificateAdded", _describe_added(missing), warning=True)
    else:
        # What listeners with other names show already is good for all of them from now on.
        pair, added = added or _issue(run, authorities.cluster, wanted), None
        await run.report_event("CertificateIssued", "brokers have a new certificate")
    manifest = security.broker_secret(
        context,
        pair,
        added,
        cluster_authority=authorities.cluster.admitted,
        clients_authority=authorities.clients.admitted,
    )
    await write_own_secret(run, manifest, secret)


def _issue(run: ReconcileRun, authority: AuthorityKeys, names: frozenset[str]) -> KeyPair:
    return issue(
        authority.issuing,
        security.broker_common_name(run.context.name)[:64],
        names=names,
        organization=ORGANIZATION,
        days=run.context.spec.certificates.validity_days,
        now=run.environment.now(),
    )


def _describe_added(missing: Sequence[str]) -> str:
    shown = ", ".join(missing[:_NAMES_SHOWN_MAX])
    more = len(missing) - _NAMES_SHOWN_MAX
    others = f" and {more} more names" if more > 0 else ""
    return (
        f"{shown}{others} can only be in a certificate of the new authority. A listener shows it where a broker "
        "advertises such a host, and clients need the new ca.crt there. Elsewhere the former certificate stays"
    )


def _is_good(run: ReconcileRun, pair: KeyPair, authority: AuthorityKeys) -> bool:
    """Whether a certificate is of the authority, and good for some time yet."""
    renewal = timedelta(days=run.context.spec.certificates.renewal_days)
    return authority.has_signed(pair.certificate, now=run.environment.now(), renewal=renewal)


def _serves(run: ReconcileRun, pair: KeyPair, authority: AuthorityKeys, wanted: frozenset[str]) -> bool:
    """Whether a certificate is good for some time yet, and for all names."""
    return _is_good(run, pair, authority) and wanted <= facts_of(pair.certificate).names


def _hosts(run: ReconcileRun, addresses: ExternalAddresses) -> Iterable[str]:
    """Hosts that are advertised to clients outside; for ${NODE_IP} the addresses of the brokers' nodes."""
    nodes = sorted({pod.node_address for pod in run.broker_pods() if pod.node_address})
    for listener in run.context.spec.listeners:
        found = [one for one in addresses.by_listener.get(listener.name, {}).values() if one is not None]
        if listener.type is not ListenerType.INTERNAL:
            begin = bootstrap_address(run.context, listener, run.objects, nodes)
            found += [] if begin is None else [begin]
        for address in found:
            host = address.rpartition(":")[0].strip("[]")
            yield from nodes if host == NODE_IP else [host]


async def _ensure_authority(
    run: ReconcileRun,
    suffix: str,
    common_name: str,
    *,
    own: OwnAuthority | None,
    trusted: Mapping[str, str],
) -> tuple[AuthorityKeys, str | None]:
    """An authority, and what is wrong with the one that its owner brings. `trusted` is what brokers have, by suffix."""
    wanted, now = run.context.spec.certificates, run.environment.now()
    rotation = (metadata(run.body).get("annotations") or {}).get(ROTATE_AUTHORITY_ANNOTATION, "")
    secret = await read_own_secret(run, suffix)
    known = None if secret is None else keys_of(security.decode_secret(secret))
    brought, problem = (None, None) if own is None else await _read_brought(run, own.secret_name)
    policy = KeyPolicy(
        wanted.authority_validity_days,
        timedelta(days=wanted.renewal_days),
        timedelta(days=wanted.authority_overlap_days),
    )
    if problem is not None:
        if known is None:
            raise NoAuthority(problem)
        return known, f"{problem}. Until then the authority {suffix} is as it was"
    if known is None:
        authority, event = first_keys(
            policy,
            common_name=common_name,
            rotation=rotation,
            now=now,
            brought=brought,
            former=trusted.get(suffix, ""),
        )
    else:
        authority, event = step_keys(
            known, policy, common_name=common_name, rotation=rotation, now=now, brought=brought
        )
    if event is not None:
        message = f"the authority {suffix} {event.message}"
        await run.report_event(event.reason, message, warning=event.is_warning)
    await write_own_secret(run, security.authority_secret(run.context, suffix, authority.files()), secret)
    return authority, None if own is None else _describe_end(own.secret_name, authority, now)


async def _read_brought(run: ReconcileRun, name: str) -> tuple[BroughtAuthority | None, str | None]:
    """The authority in a Secret of the Cluster's owner, or what is wrong with it. Raises KubernetesError."""
    try:
        found = await Secrets(run.environment.kubernetes).read(run.key.namespace, name)
    except SecretTaken:
        found = {}
    if found is None:
        return (
            None,
            f"there is no Secret {name} with the authority: make it, or correct the Cluster's certificates",
        )
    labels = metadata(found).get("labels") or {}
    if labels.get(AUTHORITY_LABEL) != "true":
        return None, f'the Secret {name} is not for the operator: label it {AUTHORITY_LABEL}="true"'
    files = {key: text.decode(errors="replace") for key, text in security.decode_secret(found).items()}
    certificates = files.get(security.CERTIFICATE_KEY, "")
    try:
        pair = read_authority(certificates, files.get(security.PRIVATE_KEY_KEY, ""))
        if facts_of(pair.certificate).not_after <= run.environment.now():
            raise ValueError("tls.crt has ended")
    except ValueError as problem:
        return None, f"the Secret {name} has no authority that can be used: {problem}"
    above = dict.fromkeys(split_certificates(certificates + files.get("ca.crt", "")))
    above.pop(pair.certificate)
    return BroughtAuthority(pair, "".join(above)), None


def _describe_end(name: str, authority: AuthorityKeys, now: datetime) -> str | None:
    ends = facts_of(authority.issuing.certificate).not_after
    if authority.following is not None or ends - now > _BROUGHT_END:
        return None
    return f"the authority in the Secret {name} ends at {ends:%Y-%m-%d %H:%M} UTC: renew it"


async def _read_trusted(run: ReconcileRun) -> Mapping[str, str]:
    """The authorities in the brokers' own Secret, in PEM by suffix: they outlive the authorities' Secrets."""
    secret = await read_own_secret(run, "broker-tls")
    return {} if secret is None else security.read_trusted_authorities(secret)


def _read_pair(
    secret: Json | None,
    certificate_key: str = security.CERTIFICATE_KEY,
    private_key_key: str = security.PRIVATE_KEY_KEY,
) -> KeyPair | None:
    """A key pair of a Secret; None where there is none, or one that cannot be read."""
    files = {} if secret is None else security.decode_secret(secret)
    certificate = files.get(certificate_key, b"").decode(errors="replace")
    key = files.get(private_key_key, b"").decode(errors="replace")
    try:
        facts_of(certificate)
    except ValueError:
        return None
    return KeyPair(certificate, key) if key else None
