"""Bootstrap addresses as people write them."""

from __future__ import annotations

import pytest

from odradek.client.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost", [("localhost", 9092)]),
        ("localhost:1234", [("localhost", 1234)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[fe80::1%eth0]", [("fe80::1%eth0", 9092)]),
        ("PLAINTEXT://a:1, b:2 ,a:1", [("a", 1), ("b", 2)]),
        (["a:1,b:2", "c"], [("a", 1), ("b", 2), ("c", 9092)]),
    ],
)
def test_addresses_are_read_in_order_and_once(
    given: str | list[str], expected: list[tuple[str, int]]
) -> None:
    assert list(parse_addresses(given)) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *((given, "no broker address given") for given in ("", ",")),
        *((given, "no port") for given in ("a:", "a:x", "a:0", "a:70000")),
        (":1", "names no host"),
        ("::1", "write IPv6 in brackets"),
        *((given, "write IPv6 like") for given in ("[::1", "[]:1", "[::1]9092")),
        ("http://broker:9092", "is a URL, .* write 'broker:9092'"),
        ("https://broker/", "is a URL, .* write 'broker:9092'"),
        ("kafka://[::1]:1/x", r"is a URL, .* write '\[::1\]:1'"),
        ("zk://", "is a URL, .* write 'HOST:9092'"),
        ("a:1,http://b:2", "'http://b:2'"),
        ("SSL://broker:9093", "write 'broker:9093', and set security.protocol to SSL"),
        ("sasl_ssl://broker:9093", "set security.protocol to SASL_SSL"),
        ("broker:9092/kafka", r"a path \('/kafka'\).* write 'broker:9092'"),
        ("broker/", "write 'broker'"),
        ("me:secret@broker:9092", "'broker:9092'"),
        ("bro ker:9092", "not the name of a host"),
        ("broker?x:9092", "not the name of a host"),
        ("a:²", "no port"),
        ("a:" + "9" * 5000, "no port"),
        ("[::g]:9092", "IPv6"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_write(given: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_addresses(given)


def test_a_name_in_any_script_is_an_address() -> None:
    assert parse_addresses("bücher_1.example:1") == (Address("bücher_1.example", 1),)


def test_an_address_prints_as_it_is_written() -> None:
    assert str(Address("::1", 1)) == "[::1]:1"
    assert str(Address("a", 1)) == "a:1"
