"""ssl.principal.mapping.rules: Kafka's own examples, and what is refused."""

import pytest

from odradek.foundation.errors import SettingError
from odradek.security.tls.names import MappingRefused, PrincipalMapping

KAFKAS_EXAMPLE = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a,O=b", "CN=a,O=b"),
        (KAFKAS_EXAMPLE, "CN=kafka-server1,OU=ServiceUsers,O=x,C=y", "kafka-server1"),
        (KAFKAS_EXAMPLE, "CN=Kafka,OU=Brokers,O=Org,L=City,ST=State,C=CZ", "kafka@brokers"),
        (KAFKAS_EXAMPLE, "cn=Kafka1,SERIALNUMBER=123", "kafka1"),
        ("RULE:CN=(a{1,2}),.*/$1/U,DEFAULT", "CN=aa,O=b", "AA"),
        (r"RULE:CN=(.*)\/(.*)/$2$9/", "CN=a/b", "b$9"),
        (" RULE:CN=a/x/ , DEFAULT ", "CN=a", "x"),
    ],
)
def test_the_first_rule_that_fits_the_whole_subject_names_the_user(
    rules: str, subject: str, user: str
) -> None:
    assert PrincipalMapping(rules).name_of(subject) == user


@pytest.mark.parametrize(("rules", "subject"), [("RULE:CN=a/x/", "CN=ab"), ("RULE:CN=(.*)/$1/", "CN=")])
def test_a_subject_without_a_rule_or_a_name_is_refused(rules: str, subject: str) -> None:
    with pytest.raises(MappingRefused):
        PrincipalMapping(rules).name_of(subject)


@pytest.mark.parametrize(
    "rules", ["DEFAULTS", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "RULE:(?=a)a/b/", "RULE:a/b/LDEFAULT"]
)
def test_rules_that_cannot_be_read_are_refused_at_the_start(rules: str) -> None:
    with pytest.raises(SettingError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
