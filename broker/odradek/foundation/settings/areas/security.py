"""The encryption of connections, and the logins of clients: Kafka's keys of TLS and SASL.

Each may stand for one listener, as `listener.name.NAME.KEY`.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.settings.declaration import (
    EachOf,
    OneOf,
    Scope,
    integer,
    java_class,
    long,
    password,
    text,
    words,
)

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
# In the form for one listener, as `listener.name.NAME.KEY`, these change on a broker while it runs.
_WHILE_RUNNING: Final = Scope.PER_BROKER
STORE_TYPES = OneOf("JKS", "PKCS12", "PEM", any_case=True)


class TlsSettings:
    """Certificates, keys and rules of listeners with the protocols SSL and SASL_SSL, and of the broker's own
    connections to such listeners.
    """

    ssl_keystore_type: str = text(
        "JKS",
        "The form of the store with this broker's key and certificate: PEM or PKCS12. A store of Java's own form must "
        "be converted.",
        STORE_TYPES,
        scope=_WHILE_RUNNING,
    )
    ssl_keystore_location: str | None = text(
        None,
        "The file with this broker's key and its chain of certificates.",
        scope=_WHILE_RUNNING,
    )
    ssl_keystore_password: str | None = password(
        "The password of a PKCS12 file with the key.", scope=_WHILE_RUNNING
    )
    ssl_keystore_key: str | None = password(
        "This broker's key in PEM, instead of a file.", scope=_WHILE_RUNNING
    )
    ssl_keystore_certificate_chain: str | None = password(
        "This broker's certificate in PEM and those that signed it, instead of a file.",
        scope=_WHILE_RUNNING,
    )
    ssl_key_password: str | None = password("The password of an encrypted key in PEM.", scope=_WHILE_RUNNING)
    ssl_truststore_type: str = text(
        "JKS",
        "The form of the store with the certificates that are trusted: PEM or PKCS12.",
        STORE_TYPES,
        scope=_WHILE_RUNNING,
    )
    ssl_truststore_location: str | None = text(
        None,
        "The file with the certificates of authorities that sign the peers' certificates.",
        scope=_WHILE_RUNNING,
    )
    ssl_truststore_password: str | None = password(
        "The password of a PKCS12 file with trusted certificates.", scope=_WHILE_RUNNING
    )
    ssl_truststore_certificates: str | None = password(
        "The certificates that are trusted, in PEM, instead of a file.",
        scope=_WHILE_RUNNING,
    )
    ssl_client_auth: str = text(
        "none",
        "Whether clients show a certificate: none, requested (they may), or required. On a SASL_SSL listener only the "
        "form for that listener counts.",
        OneOf("required", "requested", "none"),
    )
    ssl_protocol: str = text(
        "TLSv1.3",
        "The newest version of TLS to ask for when ssl.enabled.protocols allows it.",
        OneOf("TLSv1.2", "TLSv1.3"),
    )
    ssl_enabled_protocols: tuple[str, ...] = words(
        ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are spoken.", EachOf("TLSv1.2", "TLSv1.3")
    )
    ssl_cipher_suites: tuple[str, ...] = words(
        (), "The cipher suites by their IANA names; an empty list allows every strong one."
    )
    ssl_endpoint_identification_algorithm: str = text(
        "https",
        "Whether a broker's own connections check that the certificate names the host: https, or nothing for no check.",
        OneOf("https", "", any_case=True),
    )
    ssl_principal_mapping_rules: str = text(
        "DEFAULT", "Rules that make a user's name of a client certificate's subject; DEFAULT is the subject."
    )


class SaslSettings:
    """Logins at listeners with the protocols SASL_PLAINTEXT and SASL_SSL."""

    sasl_enabled_mechanisms: tuple[str, ...] = words(
        ("GSSAPI",),
        "The mechanisms of logins: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. The default is not served, so a "
        "listener with SASL needs a value.",
    )
    sasl_jaas_config: str | None = password(
        "The login module of one mechanism, with the users of PLAIN. It counts only as "
        "listener.name.NAME.MECHANISM.sasl.jaas.config."
    )
    sasl_mechanism_inter_broker_protocol: str = text(
        "GSSAPI",
        "The mechanism that this broker logs in to others with. The user and password are those of the listener's "
        "sasl.jaas.config for the mechanism.",
    )
    sasl_mechanism_controller_protocol: str = text(
        "GSSAPI",
        "The mechanism that this broker logs in to controllers with. The user and password are those of "
        "listener.name.NAME.MECHANISM.sasl.jaas.config, for the first of controller.listener.names.",
    )
    sasl_server_max_receive_size: int = integer(
        524_288, "The largest request of a client that has not logged in yet."
    )
    connections_max_reauth_ms: int = long(
        0, "How long a login lasts; then the client must log in again. 0 is without an end."
    )
    connection_failed_authentication_delay_ms: int = integer(
        100, "How long the answer to a failed login is held back.", 0
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = text(
        None,
        "Where the keys are that tokens are signed with, as https://HOST/PATH or file:///PATH: a JSON Web Key Set. "
        "OAUTHBEARER needs it.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = long(
        3_600_000, "How often the keys are read again from their address. A file is followed as it changes."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = long(
        100, "The pause after the first failed reading of the keys; it doubles with each further one."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = long(
        10_000, "The longest pause between two readings of the keys that fail."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = words(
        None, "The audiences of which a token must name one; without a value any audience is taken."
    )
    sasl_oauthbearer_expected_issuer: str | None = text(
        None, "The issuer that a token must name; without a value any issuer is taken."
    )
    sasl_oauthbearer_clock_skew_seconds: int = integer(
        30, "How far the clock of a token's issuer may be off."
    )
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim of a token that names the user.")
    sasl_oauthbearer_scope_claim_name: str = text("scope", "The claim of a token that names its scope.")
    sasl_oauthbearer_jwt_validator_class: str = java_class(
        f"{_OAUTH}.DefaultJwtValidator",
        "Kafka's names for the checking of tokens: each of them is the same here, and checks the signature.",
        OneOf(f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.BrokerJwtValidator"),
    )
    sasl_server_callback_handler_class: str | None = java_class(
        None,
        "Kafka's name for the checking of tokens at a listener with OAUTHBEARER. It is accepted, and not needed.",
        OneOf(
            f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
        ),
    )
    sasl_login_callback_handler_class: str | None = java_class(
        None,
        "Kafka's name for the fetching of tokens for the broker's own logins. It is accepted, and not needed.",
        OneOf(
            f"{_OAUTH}.OAuthBearerLoginCallbackHandler", f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler"
        ),
    )
    sasl_oauthbearer_token_endpoint_url: str | None = text(
        None,
        "Where the token of the broker's own logins is, as file:///PATH, or as https://HOST/PATH for one by the "
        "client's credentials.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = text(
        None, "The client's id for sasl.oauthbearer.token.endpoint.url."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = password(
        "The client's secret for sasl.oauthbearer.token.endpoint.url."
    )
    sasl_oauthbearer_scope: str | None = text(
        None, "The scope that is asked for at sasl.oauthbearer.token.endpoint.url."
    )


class TokenSettings:
    """Delegation tokens (KIP-48), which need the same secret on every broker and controller."""

    delegation_token_secret_key: str | None = password(
        "The secret that the passwords of delegation tokens are made with; without it there are none. A change of it "
        "ends all tokens."
    )
    delegation_token_max_lifetime_ms: int = long(
        604_800_000, "How long a delegation token can be renewed.", 1
    )
    delegation_token_expiry_time_ms: int = long(
        86_400_000, "How long a delegation token is good without a renewal.", 1
    )
