"""The tests of others, a share of each suite: what its allow-list says, holds. `make foreign` plays all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.foreign.allow_list import Kind, read_allow_list, short_class, short_name, surprises
from tests.foreign.play import methods_of, play
from tests.foreign.suites import SUITES, Suite, suite_named
from tests.support.java import CHECKOUT, JavaUnavailableError
from tests.support.peers import skip_or_fail

pytestmark = [
    pytest.mark.clients,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.thorough,
]

# Each takes seconds, and they start clusters of one broker and of several.
SHARE = {
    "clients": ["AdminFenceProducersTest", "ProducerCompressionTest"],
    "tools": ["ClusterToolTest"],
    "streams": ["ConsistencyVectorIntegrationTest", "TaskMetadataIntegrationTest"],
    "connect": ["RestExtensionIntegrationTest"],
    "mirror": ["DedicatedMirrorIntegrationTest.testSingleNodeCluster"],
    "spark": ["KafkaSinkBatchSuiteV2"],
}


@pytest.fixture(params=[suite.name for suite in SUITES])
def suite(request: pytest.FixtureRequest) -> Suite:
    found = suite_named(request.param)
    try:
        found.shadowed()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    return found


def test_the_list_names_every_method_and_a_share_of_it_holds(suite: Suite, tmp_path: Path) -> None:
    every = methods_of(suite, tmp_path)
    expected = read_allow_list(suite.allow_list, every)
    counts = Counter(one.kind for one in expected.values())
    figures = " | ".join(str(counts[kind]) for kind in Kind)
    assert f"| {suite.name} {suite.version} | {figures} |" in (CHECKOUT / "docs" / "testing.md").read_text()
    wanted = [
        one
        for one in every
        if not {short_class(one), short_name(one)}.isdisjoint(SHARE[suite.name])
        and expected[one].kind in (Kind.PASSES, Kind.FAILS)
    ]
    assert wanted
    assert surprises(expected, play(suite, wanted, tmp_path, tell=print)) == []
