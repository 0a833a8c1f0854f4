"""Certificates that change on disk: taken whole, kept when wrong, found behind links."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from odradek.foundation.settings.broker_settings import Settings
from odradek.security.tls.contexts import FollowedContext, server_context
from odradek.security.tls.listener import listener_tls
from tests.support.certificates import Authority, Leaf

CA = Authority()


def followed(keystore: Path) -> FollowedContext:
    given = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
    }
    return FollowedContext(listener_tls(Settings(given), "SSL", is_sasl=False), server_context)


def shown(context: ssl.SSLContext) -> str:
    """The common name of the certificate that a client sees."""
    client = ssl.create_default_context(cadata=CA.pem)
    pipes = [ssl.MemoryBIO() for _ in range(2)]
    ends = [
        client.wrap_bio(pipes[0], pipes[1], server_hostname="localhost"),
        context.wrap_bio(pipes[1], pipes[0], server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject = ends[0].getpeercert()
    assert subject is not None
    return str(dict(part[0] for part in subject["subject"])["commonName"])  # type: ignore[misc]


def swap(path: Path, text: str) -> None:
    """Replace a file whole, as programs do that renew certificates."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def pem(leaf: Leaf) -> str:
    return leaf.key + leaf.chain


def test_a_renewed_certificate_is_taken(tmp_path: Path) -> None:
    path = CA.leaf("old").write(tmp_path / "k.pem")
    context = followed(path)
    first = context.current
    context.follow()
    assert context.current is first
    swap(path, pem(CA.leaf("new")))
    context.follow()
    assert (shown(first), shown(context.current), context.reloads) == ("old", "new", 1)


def test_links_of_kubernetes_are_followed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        CA.leaf(name).write(tmp_path / name / "tls.pem")
    (tmp_path / "..data").symlink_to(tmp_path / "old")
    (tmp_path / "tls.pem").symlink_to(tmp_path / "..data" / "tls.pem")
    context = followed(tmp_path / "tls.pem")
    (tmp_path / "fresh").symlink_to(tmp_path / "new")
    os.replace(tmp_path / "fresh", tmp_path / "..data")
    context.follow()
    assert shown(context.current) == "new"


def test_wrong_files_are_kept_out_until_they_are_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = CA.leaf("old").write(tmp_path / "k.pem")
    context = followed(path)
    new, other = CA.leaf("new"), CA.leaf("other")
    for wrong in ("", "no PEM", new.key, new.key + other.chain):
        swap(path, wrong)
        context.follow()
        context.follow()
        assert shown(context.current) == "old"
    path.unlink()
    context.follow()
    assert context.failed_reloads == 9
    assert "belongs to another certificate" in caplog.text
    assert "PRIVATE" not in caplog.text
    swap(path, pem(new))
    context.follow()
    assert shown(context.current) == "new"
