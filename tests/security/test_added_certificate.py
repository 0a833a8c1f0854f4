"""A folder with two certificates: a listener shows the one that is for its advertised host."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.foundation.settings.broker_settings import Settings
from odradek.security.tls.contexts import FollowedContext, server_context
from odradek.security.tls.listener import listener_tls
from tests.security.test_followed_context import CA, shown
from tests.support.certificates import Leaf

FORMER = CA.leaf("former", names=("localhost", "old.example.org"))
ADDED = CA.leaf("added", names=("localhost", "old.example.org", "new.example.org", "192.0.2.7"))


def write(folder: Path, name: str, leaf: Leaf) -> None:
    (folder / f"{name}.key").write_text(leaf.key)
    (folder / f"{name}.crt").write_text(leaf.chain)


def settings_of(folder: Path, advertised: str) -> Settings:
    return Settings(
        {
            "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "OUTSIDE:SSL,INSIDE:SSL",
            "advertised.listeners": advertised,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder),
        }
    )


def followed(folder: Path, advertised: str, listener: str = "OUTSIDE") -> FollowedContext:
    return FollowedContext(
        listener_tls(settings_of(folder, advertised), listener, is_sasl=False), server_context
    )


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        ("OUTSIDE://old.example.org:9092", "former"),
        ("OUTSIDE://new.example.org:9092", "added"),
        ("OUTSIDE://192.0.2.7:9092", "added"),
        ("OUTSIDE://192.0.2.8:9092", "former"),
        ("INSIDE://new.example.org:9092", "former"),
    ],
)
def test_a_listener_shows_the_certificate_for_its_host(
    tmp_path: Path, advertised: str, expected: str
) -> None:
    write(tmp_path, "tls", FORMER)
    write(tmp_path, "added", ADDED)
    assert shown(followed(tmp_path, advertised).current) == expected


def test_the_second_certificate_comes_and_goes_while_a_broker_runs(tmp_path: Path) -> None:
    write(tmp_path, "tls", FORMER)
    outside, inside = (
        followed(tmp_path, "OUTSIDE://new.example.org:1,INSIDE://old.example.org:2", name)
        for name in ("OUTSIDE", "INSIDE")
    )
    assert shown(outside.current) == "former"
    write(tmp_path, "added", ADDED)
    assert outside.follow() and not inside.follow()
    assert (shown(outside.current), shown(inside.current)) == ("added", "former")
    write(tmp_path, "tls", ADDED)
    for path in tmp_path.glob("added.*"):
        path.unlink()
    assert inside.follow() and not outside.follow(), "the outer one shows it already"
    assert (shown(outside.current), shown(inside.current)) == ("added", "added")


def test_half_of_a_second_certificate_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "tls", FORMER)
    context = followed(tmp_path, "OUTSIDE://new.example.org:1")
    (tmp_path / "added.crt").write_text(ADDED.chain)
    assert not context.follow()
    (tmp_path / "added.key").write_text("no key")
    assert not context.follow() and context.failed_reloads == 1
    assert shown(context.current) == "former"
