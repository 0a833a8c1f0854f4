"""OpenSSL's contexts from keys, certificates and options, and those that follow their files.

A context is made whole and never changed afterwards. Changing a live one could only add trust, and a failure would
leave half of a change. So a certificate that was renewed gives a new context, without a restart.

Kubernetes swaps a link to a folder, cert-manager renames files: so what counts is the file behind the path, by its
number, size and time. Files of two generations do not fit each other, and are soon read again. The context in force
stays until a whole new one is made. Connections that are open keep theirs; `listener` says which may stay open.

Left out: lists of revoked certificates. Sessions are not resumed by tickets, since a resumed session would keep its
client's certificate unchecked.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from odradek.foundation.errors import DependencyError, SettingError
from odradek.security.tls.files import (
    TLS_1_2,
    TLS_1_3,
    KeyAndChain,
    TlsOptions,
    read_key,
    read_trusted,
)

logger = logging.getLogger(__name__)
_MEMORY_FILE_NAME: Final = "odradek-key"
KEY: Final = "ssl.cipher.suites"
TLS_1_2_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
TLS_1_3_SUITES: Final = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
)
_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsMaterial(NamedTuple):
    """The content of the stores at one moment, to be compared with the next."""

    key: KeyAndChain | None
    trusted: str | None


def read_material(options: TlsOptions) -> TlsMaterial:
    """Read the stores. Raises SettingError and DependencyError."""
    key = read_key(options.keystore, host=options.host) if options.keystore.is_given else None
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


class ChosenSuites:
    """`ssl.cipher.suites`: Java's names of the suites of TLS 1.2 (IANA's registry), and OpenSSL's for them.

    Only suites with forward secrecy and authenticated encryption are here; others are refused by name. The suites of
    TLS 1.3 are all strong. Python 3.11 cannot choose among them, so a list must name all of them or none.

    The suites that a list allows. `tls_1_2` is OpenSSL's text, empty for none; `is_tls_1_3` allows TLS 1.3.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Raises SettingError for a suite that is unknown or weak, and for some suites of TLS 1.3 without the rest."""
        unknown = [name for name in names if name not in TLS_1_2_SUITES and name not in TLS_1_3_SUITES]
        if unknown:
            raise SettingError(
                f"Invalid value {','.join(names)} for configuration {KEY}: {unknown[0]} is unknown or has no forward "
                f"secrecy; choose from {', '.join((*TLS_1_2_SUITES, *sorted(TLS_1_3_SUITES)))}"
            )
        given = TLS_1_3_SUITES.intersection(names)
        if given and given != TLS_1_3_SUITES:
            raise SettingError(
                f"Invalid value {','.join(names)} for configuration {KEY}: it must name all suites of TLS 1.3 or none, "
                f"since one cannot be left out; add {', '.join(sorted(TLS_1_3_SUITES - given))}"
            )
        self.is_tls_1_3 = bool(given)
        self.tls_1_2 = ":".join(TLS_1_2_SUITES[name] for name in names if name in TLS_1_2_SUITES)


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A file for a library that reads from files only, with content that should be nowhere else.

    On Linux it is in memory and has no name. Elsewhere it is in a folder that only this user may enter, and is removed
    after use.

    The path of a file with `content`, while the context lasts. Raises OSError.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create(_MEMORY_FILE_NAME), "wb") as opened:
            opened.write(content)
            opened.flush()
            yield f"/proc/self/fd/{opened.fileno()}"
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix=f"{_MEMORY_FILE_NAME}-") as folder:
        path = Path(folder, _MEMORY_FILE_NAME)
        # Made for this user alone, whatever the umask is.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(content)
        yield str(path)


Stamps = tuple[tuple[int, int, int] | None, ...]
MakeContext = Callable[[TlsOptions, TlsMaterial], ssl.SSLContext]


class FollowedContext:
    """The context of one listener, or of connections to others."""

    def __init__(self, options: TlsOptions, make: MakeContext) -> None:
        """Raises SettingError or DependencyError."""
        self.options = options
        self.wanted_options = options
        """Those to use from the next `follow` on: settings that were changed since."""
        self._make = make
        self._stamps = _read_stamps(options)
        self.material = read_material(options)
        self.current = make(options, self.material)
        self._failure = ""
        self.reloads = 0
        self.failed_reloads = 0
        """Attempts to take changed files that failed. Each is made again until it succeeds."""

    def follow(self) -> bool:
        """Take changed files or options, and say whether there is a new context.

        Blocks for some milliseconds when they changed: not for the event loop.
        """
        options = self.wanted_options
        stamps = _read_stamps(options)
        is_same = options == self.options
        if is_same and stamps == self._stamps:
            return False
        try:
            material = read_material(options)
            context = None if is_same and material == self.material else self._make(options, material)
        except (SettingError, DependencyError) as failure:
            self.failed_reloads += 1
            if str(failure) != self._failure:
                self._failure = str(failure)
                logger.error(
                    "%s keeps its certificates, since the new ones fail: %s", self.options.name, failure
                )
            return False
        self.options, self._stamps, self._failure = options, stamps, ""
        if context is None:
            return False
        self.material, self.current = material, context
        self.reloads += 1
        logger.info("%s has new certificates, for new connections", self.options.name)
        return True


def _read_stamps(options: TlsOptions) -> Stamps:
    stamps: list[tuple[int, int, int] | None] = []
    keystore = options.keystore
    for path in (*keystore.files(), *keystore.list_added_files(), *options.truststore.files()):
        try:
            found = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamps)
