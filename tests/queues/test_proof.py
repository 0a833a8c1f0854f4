"""The queue's proof in small: some thousand records and a few faults; `make queue-proof` has a million and many."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support.broker_process import CHECKOUT
from tests.support.java import KAFKA_NEWEST_VERSION, JavaUnavailableError, kafka_classpath
from tests.support.peers import skip_or_fail

pytestmark = [
    pytest.mark.integration,
    pytest.mark.clients,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.thorough,
]

RECORDS = 5_000
RUN_SECONDS_MAX = 1_140  # one and a half minutes at rest


@pytest.mark.timeout(1_200)
def test_each_record_is_accepted_once_or_has_a_letter() -> None:
    try:
        kafka_classpath(KAFKA_NEWEST_VERSION)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    seed = os.environ.get("CHAOS_SEED", "4")
    arguments = ["--records", str(RECORDS), "--minutes", "0.5", "--seed", seed]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.queues", *arguments],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            output, _ = run.communicate(timeout=RUN_SECONDS_MAX)
        finally:
            # A run that is cut off leaves none of its brokers and clients.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 0, output[-20_000:]
    assert re.search(rf"^held: {RECORDS} records, ", output, re.MULTILINE), output
