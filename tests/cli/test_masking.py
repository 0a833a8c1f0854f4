"""What `odradek support-bundle` masks, by texts: settings, logs, headers, tokens, PEM; and its pseudonyms."""

from __future__ import annotations

import time

import pytest

from odradek.cli.cluster.bundle.masking import MASK, is_secret, is_suspicious, mask_document, mask_text
from odradek.cli.cluster.bundle.pseudonyms import GROUP, HOST, TOPIC, USER, NameCover

SECRET = "hunter2"
PEM = (
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nMIIhunter2hunter2AAAA\nhunter2==\n"
    "-----END ENCRYPTED PRIVATE KEY-----"
)
LINES = [
    "password=hunter2",
    "password = hunter2 and hunter2",
    "ssl.keystore.password: hunter2, ssl.key.password: hunter2",
    '{"password": "hunter2", "a": 1}',
    '{"password":"hunter2"}',
    r'{"password": "a\"hunter2"}',
    r'group="{\"token\": \"hunter2\"}"',
    "{'ssl.key.password': 'hunter2'}",
    'sasl.jaas.config=org.x.PlainLoginModule required username="a" password="hunter2";',
    'org.x.ScramLoginModule required username="hunter2"',
    "Authorization: Basic aHVudGVyMg== hunter2",
    'authorization="Bearer hunter2"',
    "< Cookie: session=hunter2; a=b",
    "sent Bearer hunter2.abc to it",
    "eyJhbGciOiJub25l.hunter2.",
    "https://ana:hunter2@kafka-1:8080/metrics",
    "curl --client-secret hunter2 --verbose",
    "odradek start --set ssl.keystore.password=hunter2",
    "GET /x?access_token=hunter2&a=1",
    "<password>hunter2</password>",
    'the password "hunter2" of ana',
    "api_key=hunter2",
    "AWS_SECRET_ACCESS_KEY=hunter2",
    "stored_key=hunter2 server_key=hunter2",
    "basic.auth.user.info=ana:hunter2",
    "my.plugin.credential=hunter2",
    "delegation.token.secret.key=hunter2",
    "listener.name.internal.plain.sasl.jaas.config=hunter2",
    "passphrase: hunter2",
    "[password=hunter2]",
    "tokens: ['hunter2', 'hunter2']",
]


@pytest.mark.parametrize("line", LINES)
def test_no_secret_of_a_line_is_left(line: str) -> None:
    for text in (line, f"12:00 INFO x: {line}", f"{line}\nnext line\n", f"{line}\r\n"):
        assert SECRET not in mask_text(text), text
        assert mask_text(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00.123Z INFO odradek.server: ready 127.0.0.1:9092 cluster=abc",
        "delegation.token.max.lifetime.ms=604800000",
        "ssl.keystore.location=/etc/key.pem",
        'odradek_topic_bytes_in_total{topic="orders"} 12.0',
        "# HELP odradek_delegation_tokens Delegation tokens that are kept.",
        "partition orders-0 has no leader at the moment; try again",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text


def test_pem_is_masked_whole_and_in_parts() -> None:
    assert mask_text(f"a\n{PEM}\nb") == f"a\n{MASK}\nb"
    body = "hunter2A" * 8
    begun = mask_text(f"x\n-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n")
    ended = mask_text(f"{body}\n{body}\n-----END PRIVATE KEY-----\nx")
    escaped = mask_text(
        "key='-----BEGIN PRIVATE KEY-----\\nhunter2hunter2hunter2\\n-----END PRIVATE KEY-----'"
    )
    assert SECRET not in begun + ended + escaped


def test_other_values_of_the_line_stay() -> None:
    assert mask_text("password=hunter2 user=ana") == f"password={MASK} user=ana"
    assert mask_text("user=ana password=hunter2, host=b") == f"user=ana password={MASK}, host=b"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ssl.keystore.password", True),
        ("sasl.jaas.config", True),
        ("bearer.auth.token", True),
        ("my.plugin.api.key", True),
        ("delegation.token.expiry.time.ms", False),
        ("sasl.mechanism", False),
        ("ssl.keystore.location", False),
        ("bootstrap.servers", False),
        ("log.dirs", False),
    ],
)
def test_a_setting_is_a_secret_by_its_declaration_or_its_name(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_documents_are_masked_below_the_names_of_secrets() -> None:
    document = {
        "my.password": "hunter2",
        "list": ["password=hunter2", 3, None, True],
        "password=hunter2": {"tokens": 3, "token": ["hunter2"]},
    }
    masked = mask_document(document)
    assert SECRET not in str(masked)
    assert masked == {
        "my.password": MASK,
        "list": [f"password={MASK}", 3, None, True],
        f"password={MASK}": {"tokens": 3, "token": [MASK]},
    }


@pytest.mark.thorough
def test_hostile_texts_take_no_longer_than_others() -> None:
    size = 200_000
    texts = ["a" * size, "password" * (size // 8), "-----BEGIN X-----" * (size // 17), " " * size, "-" * size]
    texts += ['password="' + "\\" * size, "password=" + " a" * (size // 2), "//a" * (size // 3)]
    for text in texts:
        started = time.process_time()
        mask_text(text)
        assert time.process_time() - started < 5, text[:20]


def test_names_have_one_pseudonym_wherever_they_stand() -> None:
    cover = NameCover(b"key")
    cover.add(TOPIC, ["orders", "orders-eu", "12", "ab"])
    cover.add(GROUP, ["orders", "billing (new)"])
    cover.add(HOST, ["kafka-1.example.org"])
    orders = cover.cover("orders")
    assert orders.startswith("topic-") and cover.names == 4
    text = cover.cover(
        "orders-0 of orders, orders-eu-12. billing (new) kafka-1.example.org:9092 reorders 12 ab"
    )
    assert f"{orders}-0 of {orders}, " in text
    assert "eu" not in text and "billing" not in text and "example" not in text
    assert text.endswith(":9092 reorders 12 ab")
    assert cover.cover(f"orders-0.{'a' * 32}-delete") == f"{orders}-0.{'a' * 32}-delete"
    other = NameCover(b"other key")
    other.add(TOPIC, ["orders"])
    assert other.cover("orders") != orders


def test_addresses_users_and_quotes_have_pseudonyms() -> None:
    cover = NameCover(b"key")
    cover.add(USER, ["ana"])
    text = cover.cover_addresses(
        "User:bob at 10.1.2.3 and fe80::1:2, 127.0.0.1, ::1, 12:00:03, User:ANONYMOUS"
    )
    assert "bob" not in text and "10.1.2.3" not in text and "fe80" not in text
    assert "127.0.0.1, ::1, 12:00:03, User:ANONYMOUS" in text
    covered = cover.cover_quotes("topic 'gone-topic' of \"a client\" it's '12'")
    assert "gone" not in covered and "a client" not in covered
    assert cover.cover_document({"a": ["ana", 1], "ana": None}) == {
        "a": [cover.cover("ana"), 1],
        cover.cover("ana"): None,
    }


def test_names_that_look_like_secrets_are_suspicious() -> None:
    assert is_suspicious("billing-password-x") and is_suspicious("SECRET_9")
    assert not is_suspicious("orders")
