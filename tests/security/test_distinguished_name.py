"""Subjects of certificates as Java writes them; the expected texts are X500Principal.getName's own."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from odradek.security.tls.names import subject_name
from tests.support.certificates import Authority, name

CA = Authority()


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (name("alice"), "CN=alice"),
        (
            name(
                "alice",
                (NameOID.COUNTRY_NAME, "CZ"),
                (NameOID.ORGANIZATION_NAME, "Odradek, a.s."),
                (NameOID.ORGANIZATIONAL_UNIT_NAME, "Data"),
            ),
            "CN=alice,OU=Data,O=Odradek\\, a.s.,C=CZ",
        ),
        (name("Ä+b", (NameOID.EMAIL_ADDRESS, "a@b")), "CN=Ä\\+b,1.2.840.113549.1.9.1=#1603614062"),
        (name("x", (NameOID.SERIAL_NUMBER, "7")), "CN=x,2.5.4.5=#130137"),
        (
            name("x", (NameOID.DOMAIN_COMPONENT, "cz"), (NameOID.USER_ID, "u"), (NameOID.LOCALITY_NAME, "L")),
            "CN=x,L=L,UID=u,DC=cz",
        ),
        (name(" #a "), "CN=\\ #a\\ "),
        (name("#a"), "CN=\\#a"),
        (name('a"b\\c;d<e>f=g'), 'CN=a\\"b\\\\c\\;d\\<e\\>f\\=g'),
        (
            x509.Name(
                [
                    x509.RelativeDistinguishedName(
                        [
                            x509.NameAttribute(NameOID.COMMON_NAME, "a"),
                            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b"),
                        ]
                    )
                ]
            ),
            "CN=a+O=b",
        ),
    ],
)
def test_a_subject_is_written_as_java_writes_it(subject: x509.Name, text: str) -> None:
    assert subject_name(CA.leaf(subject=subject).der) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x14\x04ab\xe9d", "CN=abéd"),  # TeletexString
        (b"\x1b\x04abcd", "CN=abcd"),  # GeneralString
        (b"\x1e\x04\x00a\x00b", "CN=ab"),  # BMPString
        (b"\x02\x04abcd", "CN=#020461626364"),  # INTEGER
    ],
)
def test_a_subject_of_any_type_of_string_has_a_name(value: bytes, text: str) -> None:
    der = CA.leaf(subject=name("abcd")).der
    assert der.count(b"\x0c\x04abcd") == 1
    assert subject_name(der.replace(b"\x0c\x04abcd", value)) == text


def test_every_cut_off_certificate_is_refused() -> None:
    der = CA.leaf("alice").der
    for size in range(len(der)):
        with pytest.raises(ValueError, match="certificate"):
            subject_name(der[:size])
