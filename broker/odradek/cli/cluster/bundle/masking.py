"""Takes secrets out of texts and documents: settings, logs, pages. Pure; too much is masked rather than too little.

A setting that is declared is a secret where its declaration says so. Any other is one by a word in its name. In a text
a value is masked from the sign after its name to the next name, or to the end of the line. Headers, tokens, logins in
addresses and blocks of PEM are known by their form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from odradek.client.properties import (
    CLIENT_PROPERTIES,
    SCHEMA_REGISTRY_LOGIN,
    SCHEMA_REGISTRY_PROPERTIES,
    SCHEMA_REGISTRY_TOKEN,
    SECURITY_PROPERTIES,
)
from odradek.foundation.settings.broker_settings import find_setting

MASK: Final = "[masked]"
_WORDS: Final = (
    r"(?:pass[-_.]?(?:word|wd|phrase)|pwd|secret|jaas|token|credential|authorization|cookie|salt(?![a-z])"
    r"|(?:api|private|access|stored|server|session|encryption|shared)[-_.]?key|keystore[-_.]key"
    r"|certificate[-_.]chain|truststore[-_.]certificates|user[-_.]?info)"
)
_HAS_WORD: Final = re.compile(_WORDS, re.IGNORECASE)
_HAS_SUSPICIOUS_WORD: Final = re.compile(r"pass[-_.]?(?:word|wd|phrase)|secret|jaas", re.IGNORECASE)
# Properties of clients that are no secret although a word or the family says so.
_OPEN_PROPERTIES: Final = frozenset(
    {
        "sasl.mechanism",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.type",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.truststore.location",
    }
)
# Bodies of PEM have no five dashes. All patterns are bounded, so that no text takes more than its length allows.
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[^-]|-(?!----)){0,40000}-----END [A-Z0-9 ]{1,40}-----"
)
# The end or the beginning of such a block may be outside of the text.
_PEM_BEGUN: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[ \t]{0,8}(?:\\n|\r?\n)?[A-Za-z0-9+/=]{16,})*"
)
_LONE_BASE64: Final = re.compile(
    r"(?m)^[ \t]{0,8}[A-Za-z0-9+/]{40,}={0,2}[ \t]{0,8}(?:-----END [A-Z0-9 ]{1,40}-----)?[ \t\r]{0,8}$"
)
_HEADER: Final = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\"?[ \t]{0,8}[:=][ \t]{0,8})[^\r\n]*"
)
_SCHEME: Final = re.compile(
    r"(?i:\bbearer)[ \t]{1,8}[A-Za-z0-9._~+/=-]{4,}|\bBasic[ \t]{1,8}[A-Za-z0-9+/]{6,}={0,2}"
)
_JWT: Final = re.compile(r"\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?")
_LOGIN: Final = re.compile(r"//[^/\s@\"']{1,400}@")
_OPTION: Final = re.compile(
    rf"(--[\w-]{{0,40}}?{_WORDS}[\w-]{{0,40}})([ \t]{{1,8}}|=)(?!-)(?:\"[^\"\r\n]*\"|'[^'\r\n]*'|\S+)",
    re.IGNORECASE,
)
_QUOTED: Final = r'"(?:[^"\\\r\n]|\\.)*"|\'(?:[^\'\\\r\n]|\\.)*\''
# The name's end, the sign, and the value. The name's begin is looked for when all this is found.
_ASSIGNMENT: Final = re.compile(
    rf"{_WORDS}[\w./-]{{0,64}}(?P<sign>\\{{0,7}}[\"']?[ \t]{{0,8}}(?:=>?|:(?!//)|>)[ \t]{{0,8}}|[ \t]{{1,8}}(?=[\"']))"
    rf"(?P<value>\[[^\]\r\n]*\]|(?:{_QUOTED})(?=[\s,;)}}\]]|$)"
    r"|[^\r\n]*?(?=[ \t]{1,8}[\w.-]{1,64}[\"']?[ \t]{0,8}[=:]|[,;][ \t]|\r?\n|$))",
    re.IGNORECASE | re.MULTILINE,
)
_NAME_BEFORE: Final = re.compile(r"[\w./-]*$")
_NAME_CHARACTERS_MAX: Final = 100
# A login module has its words, quotes and signs up to the end of the line.
_JAAS: Final = re.compile(
    r"(?i)(jaas[\w.-]{0,64}\"?[ \t]{0,8}[=:][ \t]{0,8}"
    r"|LoginModule[ \t]{1,8}(?:required|requisite|sufficient|optional)[ \t]{0,8})[^\r\n]+"
)


def is_secret(name: str) -> bool:
    """Whether the value of a setting or a client property may be a secret."""
    if name in _OPEN_PROPERTIES:
        return False
    if name in SECURITY_PROPERTIES or name in (SCHEMA_REGISTRY_LOGIN, SCHEMA_REGISTRY_TOKEN):
        return True
    declared = CLIENT_PROPERTIES.get(name) or SCHEMA_REGISTRY_PROPERTIES.get(name) or find_setting(name)
    if declared is not None:
        return declared.is_sensitive
    return _HAS_WORD.search(name) is not None


def is_suspicious(name: str) -> bool:
    """Whether the name of a topic, group or user looks as if it held a password."""
    return _HAS_SUSPICIOUS_WORD.search(name) is not None


def mask_text(text: str) -> str:
    """The text without what looks like a secret."""
    text = _PEM.sub(MASK, text)
    text = _PEM_BEGUN.sub(MASK, text)
    text = _LONE_BASE64.sub(MASK, text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _JAAS.sub(rf"\1{MASK}", text)
    text = _SCHEME.sub(MASK, text)
    text = _JWT.sub(MASK, text)
    text = _LOGIN.sub(f"//{MASK}@", text)
    text = _OPTION.sub(rf"\1\2{MASK}", text)
    return _ASSIGNMENT.sub(_mask_assignment, text)


def _mask_assignment(found: re.Match[str]) -> str:
    before = found.string[max(found.start() - _NAME_CHARACTERS_MAX, 0) : found.start()]
    begin = _NAME_BEFORE.search(before)
    word = found[0][: found.start("sign") - found.start()]
    declared = find_setting((begin[0] if begin else "") + word)
    is_open = declared is not None and not declared.is_sensitive
    return found[0] if is_open or not found["value"] else f"{word}{found['sign']}{MASK}"


def mask_document(value: object, *, name: str = "") -> object:
    """The document with masked texts. A text below a secret's name is masked whole; numbers are kept, as counts are."""
    if isinstance(value, str):
        return MASK if value and is_secret(name) else mask_text(value)
    if isinstance(value, Mapping):
        return {mask_text(str(key)): mask_document(one, name=str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [mask_document(one, name=name) for one in value]
    return value
