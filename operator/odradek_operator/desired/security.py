"""The objects that secure a Cluster's listeners: brokers' settings, Secrets with certificates, and their mounts.

    NAME-cluster-ca    the authority of brokers and the operator      tls.crt, tls.key
    NAME-clients-ca    the authority of clients                       tls.crt, tls.key
    NAME-broker-tls    the certificate of brokers and controllers     tls.crt, tls.key, cluster-ca.crt, clients-ca.crt,
                                                                      http-ca.crt with both authorities; while a lost
                                                                      authority is replaced added.crt, added.key, too

Only the last is mounted. Brokers and controllers trust each other by the first authority, and clients by the second. So
no client can pass for a broker, whatever its name is. The HTTP port takes certificates of both, and needs none: probes
and scrapes have none. What a caller sees there is decided by its name.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from odradek_operator.desired.names import (
    BROKER,
    CONTROLLER_LISTENER,
    HTTP_LISTENER,
    INTERNAL_LISTENER,
    REPLICATION_LISTENER,
    Context,
    Json,
)
from odradek_operator.desired.services import service_name
from odradek_operator.foundation.certificates import ORGANIZATION, KeyPair
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.listeners import ListenerType
from odradek_operator.resources.security import (
    AuthenticationType,
    ListenerAuthentication,
    ListenerCertificate,
)

OPERATOR_NAME: Final = "odradek-operator"
FOLDER: Final = "/etc/odradek-tls"
BROKER_FOLDER: Final = f"{FOLDER}/broker"
CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY_KEY: Final = "tls.key"
# Brokers show it at listeners whose advertised host the other certificate is not for.
ADDED_CERTIFICATE_KEY: Final = "added.crt"
ADDED_PRIVATE_KEY_KEY: Final = "added.key"
_CLUSTER_AUTHORITY: Final = "cluster-ca.crt"
_CLIENTS_AUTHORITY: Final = "clients-ca.crt"
_BOTH_AUTHORITIES: Final = "http-ca.crt"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MECHANISMS: Final = "SCRAM-SHA-512,SCRAM-SHA-256"
_READABLE_BY_GROUP: Final = 0o440
_OWN_VOLUME: Final = "broker-tls"


class Secured(Protocol):
    """The common part of the internal listener and the others."""

    @property
    def tls(self) -> bool: ...
    @property
    def authentication(self) -> ListenerAuthentication | None: ...
    @property
    def certificate(self) -> ListenerCertificate | None: ...


def is_secured(spec: ClusterSpec) -> bool:
    """Whether brokers speak to each other, and to the operator, over TLS."""
    return spec.internal_listener is not None


def needs_certificates(spec: ClusterSpec) -> bool:
    """Whether any listener needs a certificate."""
    return is_secured(spec) or any(one.tls for one in spec.listeners)


def protocol_of(listener: Secured | None) -> str:
    """The security protocol of a listener, by Kafka's name."""
    if listener is None:
        return "PLAINTEXT"
    is_sasl = listener.authentication is not None and listener.authentication.type is AuthenticationType.SCRAM
    return ("SASL_" if is_sasl else "") + ("SSL" if listener.tls else "PLAINTEXT")


def secured_listeners(spec: ClusterSpec) -> dict[str, Secured]:
    """The listeners for clients that are secured, by the names that brokers have for them."""
    found: dict[str, Secured] = {one.name.upper(): one for one in spec.listeners}
    if spec.internal_listener is not None:
        found[INTERNAL_LISTENER] = spec.internal_listener
    return {name: one for name, one in found.items() if one.tls or one.authentication is not None}


# --- settings ---------------------------------------------------------------------------------------------------------


def listener_settings(spec: ClusterSpec, *, is_held: bool) -> dict[str, str]:
    """Brokers' settings for all secured listeners; with `is_held` for those that clients do not use."""
    settings: dict[str, str] = {}
    for name, listener in ({} if is_held else secured_listeners(spec)).items():
        settings |= _settings_of(name, listener)
    if is_secured(spec):
        settings |= (
            _mutual_tls_settings(REPLICATION_LISTENER)
            | _mutual_tls_settings(CONTROLLER_LISTENER)
            | _http_settings()
        )
        settings["controller.listener.names"] = CONTROLLER_LISTENER
        # Controllers are found by the addresses of their pods, which no certificate names. Their authority has signed
        # for this Cluster's servers and for the operator, and for nothing else.
        settings[f"{_listener_prefix(CONTROLLER_LISTENER)}ssl.endpoint.identification.algorithm"] = ""
    return settings


def controller_listener_settings(spec: ClusterSpec) -> dict[str, str]:
    """Controllers' settings for their listener, where it is secured."""
    return _mutual_tls_settings(CONTROLLER_LISTENER) | _http_settings() if is_secured(spec) else {}


def _http_settings() -> dict[str, str]:
    """The HTTP port. A certificate names the caller, and the kubelet shows none."""
    prefix = _listener_prefix(HTTP_LISTENER)
    return {
        "admin.listener.name": HTTP_LISTENER,
        **_store_settings(prefix, BROKER_FOLDER, trusted=_BOTH_AUTHORITIES),
        f"{prefix}ssl.client.auth": "requested",
    }


def _mutual_tls_settings(listener: str) -> dict[str, str]:
    """A listener whose both ends show a certificate of the Cluster's authority."""
    prefix = _listener_prefix(listener)
    stores = _store_settings(prefix, BROKER_FOLDER, trusted=_CLUSTER_AUTHORITY)
    return {**stores, f"{prefix}ssl.client.auth": "required"}


def _listener_prefix(listener: str) -> str:
    return f"listener.name.{listener.lower()}."


def _settings_of(name: str, listener: Secured) -> dict[str, str]:
    prefix = _listener_prefix(name)
    settings: dict[str, str] = {}
    if listener.tls:
        folder = BROKER_FOLDER if listener.certificate is None else certificate_folder(name)
        settings |= _store_settings(prefix, folder, trusted=_CLIENTS_AUTHORITY)
    match listener.authentication:
        case ListenerAuthentication(type=AuthenticationType.SCRAM):
            settings[f"{prefix}sasl.enabled.mechanisms"] = _MECHANISMS
        case ListenerAuthentication(type=AuthenticationType.TLS):
            settings[f"{prefix}ssl.client.auth"] = "required"
    return settings


def _store_settings(prefix: str, folder: str, *, trusted: str) -> dict[str, str]:
    return {
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.location": folder,
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.location": f"{BROKER_FOLDER}/{trusted}",
    }


def authorization_settings(context: Context) -> dict[str, str]:
    """The authorizer and its super users, the same on brokers and controllers."""
    wanted = context.spec.authorization
    if wanted is None:
        return {}
    principals = [f"User:{name}" for name in (broker_principal(context.name), operator_principal())]
    return {
        "authorizer.class.name": _AUTHORIZER,
        "super.users": ";".join(dict.fromkeys([*principals, *wanted.super_users])),
        "allow.everyone.if.no.acl.found": "true" if wanted.allow_everyone_if_no_acl_found else "false",
    }


def broker_common_name(cluster: str) -> str:
    return f"{cluster}-{BROKER}"


def broker_principal(cluster: str) -> str:
    """The name that brokers act by: the subject of their certificate, as Java writes it."""
    return f"CN={broker_common_name(cluster)},O={ORGANIZATION}"


def operator_principal() -> str:
    """The name that the operator acts by."""
    return f"CN={OPERATOR_NAME},O={ORGANIZATION}"


# --- pods -------------------------------------------------------------------------------------------------------------


def secret_volumes(context: Context) -> dict[str, str]:
    """The Secrets that brokers mount, by volume."""
    if not needs_certificates(context.spec):
        return {}
    volumes = {_OWN_VOLUME: context.object_name("broker-tls")}
    for name, listener in secured_listeners(context.spec).items():
        if listener.certificate is not None:
            volumes[f"{name.lower()}-tls"] = listener.certificate.secret_name
    return volumes


def controller_volumes(context: Context) -> dict[str, str]:
    """The Secrets that controllers mount, by volume."""
    return {_OWN_VOLUME: context.object_name("broker-tls")} if is_secured(context.spec) else {}


def controller_mounts(context: Context) -> dict[str, str]:
    """Return the folders in which controllers mount these Secrets, by volume."""
    return dict.fromkeys(controller_volumes(context), BROKER_FOLDER)


def secret_mounts(context: Context) -> dict[str, str]:
    """Return the folders in which brokers mount their Secrets, by volume."""
    return {
        volume: BROKER_FOLDER if volume == _OWN_VOLUME else certificate_folder(volume.removesuffix("-tls"))
        for volume in secret_volumes(context)
    }


def certificate_folder(listener: str) -> str:
    """Return the folder in which brokers find a listener's own certificate."""
    return f"{FOLDER}/listener-{listener.lower()}"


def secret_volume(name: str, secret: str) -> Json:
    return {"name": name, "secret": {"secretName": secret, "defaultMode": _READABLE_BY_GROUP}}


# --- certificates -----------------------------------------------------------------------------------------------------


def broker_names(context: Context, hosts: Iterable[str]) -> frozenset[str]:
    """The names and addresses that brokers are reached by: those inside of Kubernetes, and `hosts`."""
    names = {"localhost", "127.0.0.1", *hosts}
    services = [context.object_name("bootstrap")]
    for listener in context.spec.listeners:
        if listener.type is ListenerType.INTERNAL:
            services += [service_name(context, listener, one) for one in (None, *context.broker_ids)]
    for service in services:
        names |= {service, f"{service}.{context.namespace}", f"{service}.{context.namespace}.svc"}
        names.add(context.dns_name(service))
    brokers = context.object_name("brokers")
    for name in (f"{brokers}.{context.namespace}.svc", context.dns_name(brokers)):
        names.add(f"*.{name}")
    return frozenset(names)


def authority_secret(context: Context, suffix: str, files: Mapping[str, str]) -> Json:
    return _secret(context, suffix, files)


def broker_secret(
    context: Context,
    pair: KeyPair,
    added: KeyPair | None = None,
    *,
    cluster_authority: str,
    clients_authority: str,
) -> Json:
    """The Secret that brokers mount. `added` is for hosts that `pair` is not for."""
    files = {
        CERTIFICATE_KEY: pair.certificate,
        PRIVATE_KEY_KEY: pair.key,
        _CLUSTER_AUTHORITY: cluster_authority,
        _CLIENTS_AUTHORITY: clients_authority,
        _BOTH_AUTHORITIES: cluster_authority + clients_authority,
    }
    if added is not None:
        files |= {ADDED_CERTIFICATE_KEY: added.certificate, ADDED_PRIVATE_KEY_KEY: added.key}
    return _secret(context, "broker-tls", files)


def read_trusted_authorities(secret: Json) -> dict[str, str]:
    """The authorities in the Secret that brokers mount, by the suffix of their own Secrets."""
    files = decode_secret(secret)
    return {
        suffix: files[name].decode(errors="replace")
        for suffix, name in (("cluster-ca", _CLUSTER_AUTHORITY), ("clients-ca", _CLIENTS_AUTHORITY))
        if name in files
    }


def _secret(context: Context, suffix: str, files: Mapping[str, str]) -> Json:
    return context.manifest(
        "v1",
        "Secret",
        context.object_name(suffix),
        BROKER,
        type="kubernetes.io/tls",
        data=encode_files(files),
    )


def encode_files(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """The data of a Secret."""
    return {
        name: base64.b64encode(text.encode() if isinstance(text, str) else text).decode()
        for name, text in sorted(files.items())
    }


def decode_secret(secret: Json) -> dict[str, bytes]:
    """The files of a Secret; those that are no base64 are left out."""
    files: dict[str, bytes] = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            files[name] = base64.b64decode(text, validate=True)
        except ValueError:
            continue
    return files
