"""Programs of others, built from their modules by Go and kept: the Spark operator and the Prometheus operator.

Nothing of them is in this repository. Their definitions (CRDs) are read from Go's module cache, where the build has put
them. Both modules name replacements in their go.mod, which `go install module@version` refuses: each is built as a tool
of an empty module that takes over those replacements. Prometheus itself is Debian's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.kube import Kube

KEPT = Path(os.environ.get("ODRADEK_E2E_PROGRAMS", Path.home() / ".cache" / "odradek-e2e-extra"))
BUILD_SECONDS_MAX = 3600


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a Go module, and where the module's release has its definitions."""

    name: str
    module: str
    version: str
    package: str
    definitions: str

    def path(self) -> Path:
        """The program, built where it is not there yet. Skips without Go, or where the proxy has not all of it."""
        built = KEPT / f"{self.name}-{self.version}"
        if built.exists():
            return built
        if shutil.which("go") is None:
            pytest.skip(f"no Go here to build {self.module} with: https://go.dev/doc/install")
        began = time.monotonic()
        folder = KEPT / "modules" / self.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _go(folder, "mod", "init", "program")
        _go(folder, "get", "-tool", f"{self.module}/{self.package}@{self.version}")
        replaced = json.loads(_go(folder, "mod", "edit", "-json", str(self._source() / "go.mod"))).get(
            "Replace"
        )
        for one in replaced or ():
            # One that names a folder is a module of its own in the proxy.
            if version := one["New"].get("Version"):
                new = f"{one['New']['Path']}@{version}"
                _go(folder, "mod", "edit", f"-replace={one['Old']['Path']}={new}")
        _go(folder, "build", "-mod=mod", "-o", str(built), f"{self.module}/{self.package}")
        print(f"{self.module} {self.version} built in {time.monotonic() - began:.0f} s", file=sys.stderr)
        return built

    def install_definitions(self, kube: Kube) -> None:
        """The definitions that the release has; it returns when they are served."""
        files = [f"--filename={path}" for path in sorted((self._source() / self.definitions).glob("*.yaml"))]
        kube.run("apply", "--server-side", *files)
        kube.run("wait", "--for=condition=Established", *files, "--timeout=60s")

    def _source(self) -> Path:
        reported = json.loads(_go(KEPT, "mod", "download", "-json", f"{self.module}@{self.version}"))
        return Path(reported["Dir"])


SPARK_OPERATOR = Program(
    name="spark-operator",
    module="github.com/kubeflow/spark-operator/v2",
    version="v2.3.0",
    package="cmd/operator",
    definitions="charts/spark-operator-chart/crds",
)
PROMETHEUS_OPERATOR = Program(
    name="prometheus-operator",
    module="github.com/prometheus-operator/prometheus-operator",
    version="v0.85.0",
    package="cmd/operator",
    definitions="example/prometheus-operator-crd",
)


@contextmanager
def running_program(log: Path, *command: str | Path, **environment: str) -> Iterator[None]:
    """A program that runs during the block; its log is shown where the block fails."""
    with log.open("w") as written:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=written, stderr=written, env={**os.environ, **environment}
        )
        try:
            yield
            assert process.poll() is None, f"{command[0]} has ended"
        except BaseException:
            print(f"{command[0]}: {log.read_text()[-5000:]}")
            raise
        finally:
            process.terminate()
            process.wait(timeout=30)


def _go(folder: Path, *arguments: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS_MAX,
    )
    if done.returncode != 0:
        pytest.skip(f"go {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout
