"""The user's name from a certificate: its subject as Java writes it (RFC 2253), then a listener's rules (KIP-371).

Certificate     SEQUENCE { to be signed, algorithm, signature }
to be signed    SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, public key, … }

Access control lists name a subject as Java's `X500Principal.getName("RFC2253")` writes it: the most specific part
first, without blanks. Java knows nine types by name. Any other part is `OID=#hexadecimal DER`, also e-mail addresses,
which OpenSSL and Python name. So the way to the subject is read here, from DER that OpenSSL has checked.

`cryptography` would change names. It writes e-mail addresses and serial numbers as text. It refuses subjects that
OpenSSL and Java accept: those with a GeneralString, or a TeletexString outside ASCII. It belongs to an extra, while TLS
with PEM needs no package. And it would add about 100 modules and 20 MB to each broker with such a listener.

The rules are `ssl.principal.mapping.rules`:

    rules   rule ("," rule)*
    rule    "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule whose pattern matches the whole subject gives the name; DEFAULT gives the subject itself. Where no rule
matches, the connection is refused. Commas may stand in a pattern, and `\\/` is a slash.

Patterns are regular expressions in RE2's syntax, which takes linear time for any subject. What Java has beyond it (a
look-ahead, a back-reference, a possessive quantifier) is refused at the start. Kafka replaces each match in the
subject, as `.*` matches twice; here the whole subject is replaced once.

The hosts that a certificate is for are read likewise, from its extension subjectAltName (RFC 5280, 4.2.1.6):

    to be signed    SEQUENCE { …, [3] SEQUENCE { extension… } }
    extension       SEQUENCE { type, [critical], OCTET STRING { value } }
    value           SEQUENCE { [2] name | [7] address | … }
"""

from __future__ import annotations

import ipaddress
import re
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.foundation.errors import SettingError

SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_VERSION: Final = 0xA0
_NAMED_TYPES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# Types of character strings that Java writes as text; others are written in hexadecimal.
_ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # TeletexString, which Java reads so
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_ESCAPED: Final = frozenset(',=+<>;"\\')
KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_GROUP: Final = re.compile(r"\$(\d)|\\(.)")


_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = bytes((0x55, 0x1D, 0x11))  # 2.5.29.17
_OCTET_STRING: Final = 0x04
_HOST_NAME: Final = 0x82
_HOST_ADDRESS: Final = 0x87


class Element(NamedTuple):
    """One element of DER: its tag, its content, its whole bytes, and where the next begins."""

    tag: int
    content: memoryview
    whole: memoryview
    end: int


def element(data: memoryview, position: int = 0) -> Element:
    """The element that begins at `position`. Raises ValueError when `data` ends before the element does."""
    try:
        tag, size = data[position], data[position + 1]
        start = position + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[start : start + count], "big")
            start += count
    except IndexError:
        raise ValueError("the certificate's bytes end too early") from None
    end = start + size
    if end > len(data):
        raise ValueError("the certificate's bytes end too early")
    return Element(tag, data[start:end], data[position:end], end)


def elements(data: memoryview) -> list[Element]:
    """The elements that stand one behind the other in `data`. Raises ValueError as `element`."""
    found: list[Element] = []
    position = 0
    while position < len(data):
        found.append(element(data, position))
        position = found[-1].end
    return found


class CertificateFields(NamedTuple):
    """Parts of a certificate, as in its DER."""

    validity: Element
    subject: Element
    public_key: Element


def certificate_fields(certificate: bytes) -> CertificateFields:
    """The parts of a certificate in DER. Raises ValueError for bytes that are no certificate."""
    to_be_signed = elements(element(element(memoryview(certificate)).content).content)
    # The version is optional.
    fields = to_be_signed[1:] if to_be_signed and to_be_signed[0].tag == _VERSION else to_be_signed
    if len(fields) < 6 or fields[0].tag != _INTEGER or fields[4].tag != SEQUENCE:
        raise ValueError("the bytes are no certificate")
    return CertificateFields(validity=fields[3], subject=fields[4], public_key=fields[5])


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER, as Java's RFC 2253 text. Raises ValueError for bytes that are no
    certificate.
    """
    subject = certificate_fields(certificate).subject
    if subject.tag != SEQUENCE:
        raise ValueError("the subject of the certificate is no name")
    parts = [_relative_name(part) for part in elements(subject.content)]
    return ",".join(reversed(parts))


def _relative_name(part: Element) -> str:
    if part.tag != _SET:
        raise ValueError("the subject of the certificate is no name")
    return "+".join(_attribute(one) for one in elements(part.content))


def _attribute(pair: Element) -> str:
    kind, value = elements(pair.content)[:2]
    if kind.tag != _OBJECT_ID:
        raise ValueError("the subject of the certificate has a part without a type")
    oid = _object_id(kind.content)
    name = _NAMED_TYPES.get(oid)
    encoding = _ENCODINGS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or oid}=#{value.whole.hex()}"
    try:
        text = bytes(value.content).decode(encoding)
    except UnicodeDecodeError as failure:
        raise ValueError(f"the part {name} of the certificate's subject is no text") from failure
    return f"{name}={_escape_value(text)}"


def _escape_value(text: str) -> str:
    """As RFC 2253, section 2.4: blanks at either end and a `#` in front are escaped too."""
    shown = ["\\" + letter if letter in _ESCAPED else "\\00" if letter == "\0" else letter for letter in text]
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text.rstrip(" "))
    for index, letter in enumerate(text):
        if letter == " " and (index < leading or index >= trailing):
            shown[index] = "\\ "
    if text.startswith("#"):
        shown[0] = "\\#"
    return "".join(shown)


def _object_id(content: memoryview) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("the subject of the certificate has an empty type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def is_for_host(certificate: bytes, host: str) -> bool:
    """Whether clients that check the host take a certificate (DER). False for bytes that are no certificate.

    A `*` stands for the whole first part of a name (RFC 6125, 6.4.3).
    """
    try:
        names, addresses = _hosts(certificate)
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).packed in addresses
    except ValueError:
        pass
    name = host.lower().rstrip(".")
    _, dot, parent = name.partition(".")
    return name in names or (bool(dot) and f"*.{parent}" in names)


def _hosts(certificate: bytes) -> tuple[set[str], set[bytes]]:
    """Names in small letters, and addresses of 4 or 16 bytes."""
    names: set[str] = set()
    addresses: set[bytes] = set()
    to_be_signed = elements(element(element(memoryview(certificate)).content).content)
    for outer in to_be_signed:
        if outer.tag != _EXTENSIONS:
            continue
        for extension in elements(element(outer.content).content):
            parts = elements(extension.content) if extension.tag == SEQUENCE else []
            if not parts or bytes(parts[0].content) != _ALTERNATIVE_NAMES or parts[-1].tag != _OCTET_STRING:
                continue
            for one in elements(element(parts[-1].content).content):
                if one.tag == _HOST_NAME:
                    names.add(bytes(one.content).decode("ascii").lower())
                elif one.tag == _HOST_ADDRESS:
                    addresses.add(bytes(one.content))
    return names, addresses


class MappingRefused(ValueError):
    """No rule fits a subject, or its name would be empty."""


class _Rule(NamedTuple):
    pattern: Any
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises SettingError for rules that cannot be read."""
        self._rules: list[_Rule | None] = []  # None is DEFAULT
        position = 0
        while position < len(text.rstrip()):
            match = _RULE.match(text, position)
            if match is None:
                raise SettingError(
                    f"Invalid value {text} for configuration {KEY}: from {text[position:]!r} on it must be DEFAULT or "
                    "RULE:pattern/replacement/ with L or U behind it, parted by commas"
                )
            position = match.end()
            self._rules.append(None if match["default"] else _compile_rule(text, match))
        if not self._rules:
            self._rules.append(None)

    def name_of(self, subject: str) -> str:
        """The user's name. Raises MappingRefused."""
        for rule in self._rules:
            if rule is None:
                return subject
            match = rule.pattern.fullmatch(subject)
            if match is None:
                continue
            name = _GROUP.sub(partial(_fill_reference, match), rule.replacement)
            name = name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
            if not name.strip():
                raise MappingRefused(f"{KEY} makes an empty name of the certificate's subject {subject!r}")
            return name
        raise MappingRefused(f"no rule of {KEY} fits the certificate's subject {subject!r}")


def _compile_rule(text: str, match: re.Match[str]) -> _Rule:
    import re2

    pattern = match["pattern"].replace("\\/", "/")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as failure:
        raise SettingError(
            f"Invalid value {text} for configuration {KEY}: {match['pattern']} must be a regular expression that RE2 "
            f"can read: {failure}"
        ) from failure
    return _Rule(compiled, match["replacement"], match["case"])


def _fill_reference(match: Any, found: re.Match[str]) -> str:
    if found[2] is not None:
        return found[2]
    number = int(found[1])
    if number > match.re.groups:
        return found[0]
    return match.group(number) or ""
