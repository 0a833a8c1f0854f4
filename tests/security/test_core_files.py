"""A broker that has keys and passwords in its memory leaves no core file where its process may write one."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import SecuredBroker

pytestmark = pytest.mark.thorough

SECRET = "a-secret-in-the-memory"
PATTERN = Path("/proc/sys/kernel/core_pattern")


class InFolder(SecuredBroker):
    """Runs in its own folder, where the kernel writes core files, and may write any."""

    def command(self) -> list[str]:
        return ["env", "-C", str(self.folder), "prlimit", "--core=unlimited", *super().command()]


@pytest.mark.skipif(
    PATTERN.read_text().startswith(("|", "/")),
    reason="the kernel writes no core file into a process's folder",
)
def test_a_crash_leaves_no_core_file_with_secrets(tmp_path: Path) -> None:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
    broker = InFolder(
        tmp_path,
        kinds={"LOGIN": "SASL_SSL"},
        settings={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": login,
        },
    )
    try:
        broker.start()
        assert broker.abort() == -signal.SIGABRT
        assert core_files(tmp_path) == []
        # Where it is allowed again, the secret is found.
        broker.start()
        subprocess.run(["prlimit", "--core=unlimited", "--pid", str(broker.pid)], check=True)
        assert broker.abort() == -signal.SIGABRT
        (core,) = core_files(tmp_path)
        assert SECRET.encode() in core.read_bytes()
    finally:
        broker.close()


def core_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith("core")]
