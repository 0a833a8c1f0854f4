"""Apicurio Registry, which has Confluent's REST API too and is published with Maven, as a process beside a test."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from tests.support.broker_process import free_port
from tests.support.class_archives import one_at_a_time
from tests.support.java import CACHE, QUICK_OPTIONS, JavaUnavailableError, java_command, java_environment
from tests.support.local_process import LocalProcess
from tests.support.polling import SECONDS_MAX

VERSION: Final = "2.6.13.Final"  # the last one for Java 17
_FOLDER: Final = CACHE / "schema-registry" / VERSION
_PROGRAM: Final = _FOLDER / f"apicurio-registry-app-{VERSION}-runner.jar"
_FETCH_SECONDS_MAX: Final = 900


def bring_schema_registry() -> Path:
    """Its jar, which Maven fetches with its libraries as one archive. Raises JavaUnavailableError."""
    with one_at_a_time(_FOLDER):
        if not _PROGRAM.exists():
            if shutil.which("mvn") is None:
                raise JavaUnavailableError(
                    "an archive with a schema registry is fetched by Maven only: install it"
                )
            _FOLDER.mkdir(parents=True, exist_ok=True)
            artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={_FOLDER}"]
            done = subprocess.run(
                ["mvn", "-q", "-B", *goal],
                capture_output=True,
                text=True,
                timeout=_FETCH_SECONDS_MAX,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode != 0:
                raise JavaUnavailableError(
                    f"{artifact} could not be fetched: {(done.stdout + done.stderr)[-2000:]}"
                )
            archive = next(_FOLDER.glob("*.tar.gz"))
            with tarfile.open(archive) as opened:
                opened.extractall(_FOLDER, filter="data")
            archive.unlink()
    return _PROGRAM


class SchemaRegistryProcess(LocalProcess):
    """It keeps schemas in memory. `url` is where its REST API of Confluent's begins."""

    def __init__(self, log_file: Path) -> None:
        super().__init__(log_file)
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Raises JavaUnavailableError where `make tools` has not brought it."""
        if not _PROGRAM.exists():
            raise JavaUnavailableError(f"there is no {_PROGRAM.name} here: `make tools` brings it")
        http = [f"-Dquarkus.http.port={self._port}", "-Dquarkus.http.host=127.0.0.1"]
        command = [java_command(), "-Xmx256m", *QUICK_OPTIONS, *http, "-jar", str(_PROGRAM)]
        self.spawn(command, env=java_environment(), cwd=self.log_file.parent)
        self.await_start(self._answers, seconds_max=SECONDS_MAX)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=10) as answer:
                return bool(json.load(answer) == [])
        except (urllib.error.URLError, TimeoutError):
            return False
