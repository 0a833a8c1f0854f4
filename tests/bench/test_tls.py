"""The benchmark's part over TLS, with a few records and one broker: a listener, its clients, and the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.questions import Answers
from bench.tls import TlsPeer, throughput, tls_of_ours
from tests.support.certificates import Authority

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]


def test_kafkas_tools_measure_a_broker_over_tls(tmp_path: Path) -> None:
    authority = Authority("bench")
    properties = tmp_path / "client.properties"
    ca = authority.write(tmp_path / "ca.pem")
    properties.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n")
    certificate = authority.leaf("broker").write(tmp_path / "broker.pem")
    peer: TlsPeer = tls_of_ours(tmp_path, certificate, properties)
    answers = Answers()
    peer.plain.start()
    try:
        throughput(peer, answers, records=500)
    finally:
        peer.plain.close()
    assert {question for question in answers.values if "TLS" in question} == answers.values.keys()
    assert len(answers.values) == 4
