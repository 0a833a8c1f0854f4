"""The subject of a certificate as Java writes it, since access control lists name it so (RFC 2253).

Java's `X500Principal.getName("RFC2253")` writes the most specific part first, without blanks. It knows nine types
by name. Any other part is `OID=#hexadecimal DER`, also e-mail addresses, which OpenSSL and Python name. So the bytes
of the certificate are read here: only the way to the subject, after OpenSSL has checked the certificate.
"""

from __future__ import annotations

from typing import Final

from odradek.security.tls.der import SEQUENCE, Element, certificate_fields, elements

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
    return f"{name}={_escaped(text)}"


def _escaped(text: str) -> str:
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
