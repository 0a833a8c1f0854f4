"""TLS at one end by Kafka's keys, and the keys, certificates and trusted authorities that they name.

They come from PEM in files or settings, or from PKCS#12, all as PEM in memory. OpenSSL loads them in `contexts`. So a
changed file can be read on a thread, and compared with what is in use. PKCS#12 needs the package `cryptography`, PEM
needs nothing.

A folder may hold a second key and certificate. A listener shows them where the first one is not for its advertised
host, and the second one is. The operator uses it while a lost authority is replaced (docs/design/0042).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.errors import DependencyError, SettingError
from odradek.security.tls.names import is_for_host

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        PKCS12KeyAndCertificates,
    )

    from odradek.foundation.settings.declaration import SettingValue

TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"
_PEM: Final = "PEM"
_PKCS12: Final = "PKCS12"
# The first bytes of a store in Java's own form, and of one in JCEKS.
_JAVA_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_STORE_BYTES_MAX: Final = 4 * 1024 * 1024
# What a Secret of the type kubernetes.io/tls holds, mounted as a folder.
_FOLDER_FILES: Final = ("tls.key", "tls.crt")
_ADDED_FILES: Final = ("added.key", "added.crt")


class StoreSettings(NamedTuple):
    """Where one store is, by its settings. `name` is `ssl.keystore` or `ssl.truststore`, for errors."""

    name: str
    type: str
    location: str | None
    password: str | None
    key: str | None
    certificates: str | None

    def __repr__(self) -> str:
        return f"StoreSettings({self.name}, {self.location})"

    @property
    def where(self) -> str:
        """The setting of its location, for errors."""
        return f"{self.name}.location={self.location}"

    @property
    def is_given(self) -> bool:
        return bool(self.location or self.key or self.certificates)

    def files(self) -> tuple[Path, ...]:
        """The files of the store. A key store may be a folder with tls.key and tls.crt, as Kubernetes mounts it."""
        if self.location is None:
            return ()
        path = Path(self.location)
        if self.name == "ssl.keystore" and path.is_dir():
            return tuple(path / file for file in _FOLDER_FILES)
        return (path,)

    def list_added_files(self) -> tuple[Path, ...]:
        """The files of the second key and certificate, which a folder may hold."""
        if self.location is None or self.name != "ssl.keystore" or not Path(self.location).is_dir():
            return ()
        return tuple(Path(self.location, file) for file in _ADDED_FILES)


class TlsOptions(NamedTuple):
    """TLS at one end. `name` says whose it is, for errors: `listener EXTERNAL`.

    `host` is what a listener advertises; None for a listener that does not, and for a client.
    """

    name: str
    keystore: StoreSettings
    truststore: StoreSettings
    key_password: str | None
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    client_auth: str
    checks_host: bool
    principal_rules: str
    host: str | None = None

    def __repr__(self) -> str:
        return f"TlsOptions({self.name})"


def tls_options(name: str, value: Callable[[str], SettingValue], *, host: str | None = None) -> TlsOptions:
    """The options that `value` gives by key. Raises SettingError."""

    def store(store_name: str, key: str | None, certificates: str | None) -> StoreSettings:
        kind, location, password = (
            value(f"{store_name}.{part}") for part in ("type", "location", "password")
        )
        return StoreSettings(store_name, kind, location, password, key, certificates)

    protocols = tuple(value("ssl.enabled.protocols"))
    if not protocols:
        raise SettingError(f"{name}: ssl.enabled.protocols is empty; name TLSv1.2, TLSv1.3 or both")
    return TlsOptions(
        name=name,
        keystore=store("ssl.keystore", value("ssl.keystore.key"), value("ssl.keystore.certificate.chain")),
        truststore=store("ssl.truststore", None, value("ssl.truststore.certificates")),
        key_password=value("ssl.key.password"),
        protocols=protocols,
        cipher_suites=tuple(value("ssl.cipher.suites")),
        client_auth=value("ssl.client.auth"),
        checks_host=bool(value("ssl.endpoint.identification.algorithm")),
        principal_rules=value("ssl.principal.mapping.rules"),
        host=host,
    )


class KeyAndChain(NamedTuple):
    """A private key and its certificates, the own one first, as PEM. The key is never shown."""

    key: str
    chain: str

    def __repr__(self) -> str:
        return "KeyAndChain(hidden)"


def read_key(store: StoreSettings, *, host: str | None = None) -> KeyAndChain:
    """The key and chain of a key store, for a listener that advertises `host`.

    Raises SettingError, which shows no secret, and DependencyError.
    """
    if store.key or store.certificates:
        if not (store.key and store.certificates) or store.location:
            raise SettingError(
                "ssl.keystore.key and ssl.keystore.certificate.chain belong together, and without "
                "ssl.keystore.location: give all of the key and the chain in settings, or all in one file"
            )
        _check_type(store, _PEM)
        return _key_of_pem(store.key + "\n" + store.certificates, "ssl.keystore.key and its chain")
    data = _read(store, store.files())
    if _type_of(store, data) == _PKCS12:
        return _key_of_pkcs12(store, data)
    if store.password:
        raise SettingError(
            "ssl.keystore.password is not for PEM: remove it, or give the password of an encrypted key as "
            "ssl.key.password"
        )
    key = _key_of_pem(_text(store, data), store.where)
    added = store.list_added_files()
    if host is None or not added or not all(path.is_file() for path in added) or _is_for(key, host):
        return key
    other = _key_of_pem(_text(store, _read(store, added)), f"{store.where} with {' and '.join(_ADDED_FILES)}")
    return other if _is_for(other, host) else key


def read_trusted(store: StoreSettings) -> str:
    """The trusted certificates as PEM. Raises as `read_key`."""
    if store.certificates:
        if store.location:
            raise SettingError("give ssl.truststore.certificates or ssl.truststore.location, not both")
        _check_type(store, _PEM)
        return _certificates(store.certificates, "ssl.truststore.certificates")
    data = _read(store, store.files())
    if _type_of(store, data) == _PKCS12:
        return _read_trusted_pkcs12(store, data)
    return _certificates(_text(store, data), store.where)


def _check_type(store: StoreSettings, wanted: str) -> None:
    if store.type.upper() != wanted:
        raise SettingError(f"{store.name}.type={store.type}: certificates in settings need the type PEM")


def _is_for(key: KeyAndChain, host: str) -> bool:
    """Whether the own certificate, which is the first of the chain, is for a host."""
    own = _BLOCK.search(key.chain)
    try:
        return own is not None and is_for_host(ssl.PEM_cert_to_DER_cert(own[0]), host)
    except ValueError:
        return False


def _read(store: StoreSettings, files: Sequence[Path]) -> bytes:
    pieces: list[bytes] = []
    try:
        for path in files:
            with path.open("rb") as opened:
                pieces.append(opened.read(_STORE_BYTES_MAX + 1))
    except OSError as failure:
        raise SettingError(f"{store.where} cannot be read: {failure.strerror}") from failure
    data = b"\n".join(pieces)
    if len(data) > _STORE_BYTES_MAX:
        raise SettingError(f"{store.where} has more than {_STORE_BYTES_MAX} bytes")
    return data


def _text(store: StoreSettings, data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise SettingError(
            f"{store.where} is no PEM: it has bytes that are not ASCII; "
            f"set {store.name}.type=PKCS12 if that is what it is"
        ) from None


def _type_of(store: StoreSettings, data: bytes) -> str:
    """PEM or PKCS12. Java reads PKCS#12 under the type JKS too, which is its default."""
    kind = store.type.upper()
    if data.startswith(_JAVA_STORES):
        raise SettingError(
            f"{store.where} is a store of Java's own form, which cannot be read here. Convert "
            f"it with keytool -importkeystore -srckeystore {store.location} -destkeystore store.p12 -deststoretype "
            f"PKCS12. Then set {store.name}.type=PKCS12"
        )
    if kind == "JKS":
        if not data.startswith(b"\x30"):
            raise SettingError(
                f"{store.name}.type=JKS, which is the default: set it to PEM or PKCS12, the form of {store.location}"
            )
        return _PKCS12
    return kind


def _key_of_pem(text: str, where: str) -> KeyAndChain:
    keys: list[str] = []
    certificates: list[str] = []
    for block in _BLOCK.finditer(text.replace("\\n", "\n")):
        (keys if block[1].endswith("PRIVATE KEY") else certificates).append(block[0])
    if len(keys) != 1 or not certificates:
        raise SettingError(
            f"{where} must hold one private key and the certificates for it in PEM; found were {len(keys)} and "
            f"{len(certificates)}"
        )
    return KeyAndChain(keys[0] + "\n", "\n".join(certificates) + "\n")


def _certificates(text: str, where: str) -> str:
    found = [
        block[0]
        for block in _BLOCK.finditer(text.replace("\\n", "\n"))
        if block[1] in ("CERTIFICATE", "TRUSTED CERTIFICATE")
    ]
    if not found:
        raise SettingError(f"{where} holds no certificate in PEM")
    return "\n".join(found) + "\n"


def _key_of_pkcs12(store: StoreSettings, data: bytes) -> KeyAndChain:
    loaded = _load_pkcs12(store, data)
    from cryptography.hazmat.primitives import serialization

    if loaded.key is None or loaded.cert is None:
        raise SettingError(f"{store.where} holds no private key with its certificate")
    key = loaded.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyAndChain(key.decode(), _pem_of([loaded.cert, *loaded.additional_certs]))


def _read_trusted_pkcs12(store: StoreSettings, data: bytes) -> str:
    loaded = _load_pkcs12(store, data)
    found = [*([loaded.cert] if loaded.cert else []), *loaded.additional_certs]
    if not found:
        raise SettingError(f"{store.where} holds no certificate")
    return _pem_of(found)


def _load_pkcs12(store: StoreSettings, data: bytes) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as failure:
        raise DependencyError(
            f"{store.name}.type=PKCS12 needs a package that is not installed: pip install cryptography, or use "
            "PEM, which needs none"
        ) from failure
    try:
        return pkcs12.load_pkcs12(data, (store.password or "").encode())
    except ValueError:
        raise SettingError(f"{store.where} is no PKCS#12 that {store.name}.password opens") from None


def _pem_of(certificates: list[PKCS12Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in certificates)
