"""OpenSSL's contexts from keys, certificates and options. A context is made whole and never changed afterwards.

A certificate that was renewed gives a new context. Changing a live one could only add trust, and a failure would
leave half of a change.

Left out: lists of revoked certificates. Sessions are not resumed by tickets, since a resumed session would keep its
client's certificate unchecked.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.security.tls.cipher_suites import ChosenSuites
from odradek.security.tls.memory_file import memory_file
from odradek.security.tls.tls_files import KeyAndChain, read_key, read_trusted
from odradek.security.tls.tls_settings import TLS_1_2, TLS_1_3, TlsOptions

_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsMaterial(NamedTuple):
    """The content of the stores at one moment, to be compared with the next."""

    key: KeyAndChain | None
    trusted: str | None


def read_material(options: TlsOptions) -> TlsMaterial:
    """Read the stores. Raises SettingError and DependencyError."""
    key = read_key(options.keystore) if options.keystore.is_given else None
    return TlsMaterial(key, read_trusted(options.truststore) if options.truststore.is_given else None)


def server_context(options: TlsOptions, material: TlsMaterial | None = None) -> ssl.SSLContext:
    """The context of a listener. Raises SettingError, naming the listener."""
    material = material or read_material(options)
    context = _context(ssl.PROTOCOL_TLS_SERVER, options, material)
    context.verify_mode = _VERIFY_MODES[options.client_auth]
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def client_context(options: TlsOptions, material: TlsMaterial | None = None) -> ssl.SSLContext:
    """The context of connections to others. Without a trust store, the system's authorities are trusted."""
    material = material or read_material(options)
    context = _context(ssl.PROTOCOL_TLS_CLIENT, options, material)
    context.check_hostname = options.checks_host
    if material.trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _context(protocol: int, options: TlsOptions, material: TlsMaterial) -> ssl.SSLContext:
    suites = ChosenSuites(options.cipher_suites) if options.cipher_suites else None
    context = ssl.SSLContext(protocol)
    has_1_2 = TLS_1_2 in options.protocols and (suites is None or bool(suites.tls_1_2))
    has_1_3 = TLS_1_3 in options.protocols and (suites is None or suites.is_tls_1_3)
    if not (has_1_2 or has_1_3):
        raise SettingError(
            f"{options.name}: no suite of ssl.cipher.suites={','.join(options.cipher_suites)} belongs to "
            f"ssl.enabled.protocols={','.join(options.protocols)}"
        )
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if has_1_2 else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if has_1_3 else ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # An authority in the middle of a chain may be trusted alone, as by Java.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if suites is not None and suites.tls_1_2:
        context.set_ciphers(suites.tls_1_2)
    elif suites is None:
        context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20")
    if material.key is not None:
        _load_key(context, options, material.key)
    if material.trusted is not None:
        try:
            context.load_verify_locations(cadata=material.trusted)
        except ssl.SSLError as failure:
            raise SettingError(
                f"{options.name}: the trusted certificates cannot be used: {_reason(failure)}"
            ) from None
    return context


def _load_key(context: ssl.SSLContext, options: TlsOptions, key: KeyAndChain) -> None:
    password = options.key_password or ""
    try:
        # OpenSSL reads a key from a file only.
        with memory_file((key.key + key.chain).encode()) as path:
            # Without a password of its own OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as failure:
        reason = _reason(failure)
        hint = "; is ssl.key.password right?" if "decrypt" in reason or "password" in reason else ""
        raise SettingError(
            f"{options.name}: its key and certificates cannot be used: {reason}{hint}"
        ) from None


def _reason(failure: ssl.SSLError) -> str:
    if failure.reason == "KEY_VALUES_MISMATCH":
        return "the key belongs to another certificate"
    return (failure.reason or str(failure)).replace("_", " ").lower()
