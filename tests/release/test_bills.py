"""Bills of materials, digests and signatures: what a reader of a release can check."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from release import bills, signing
from release.commands import ReleaseError

STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u9
Description: GNU C Library
 more lines

Package: gone
Status: deinstall ok config-files
Version: 1
"""


def install(site: Path, name: str, version: str, *more: str) -> None:
    """As pip leaves a package behind."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *more]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.fixture
def bill(tmp_path: Path) -> dict[str, Any]:
    install(tmp_path, "odradek", "0.2.0", "License-Expression: Apache-2.0", "Requires-Dist: Clicky_Tools>=8")
    install(tmp_path, "clicky_tools", "8.2", "Requires-Dist: elsewhere; extra == 'more'")
    install(tmp_path, "wordy", "1", f"License: {'x' * 200}")
    components = [*bills.python_components(tmp_path), *bills.debian_components(STATUS)]
    text = bills.write_bill("odradek", "0.2.0", components, seconds=0)
    assert text == bills.write_bill("odradek", "0.2.0", components, seconds=0), "the same bytes"
    made: dict[str, Any] = json.loads(text)
    return made


def test_a_bill_names_each_package_once_and_its_subject_apart(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    subject = bill["metadata"]["component"]
    assert subject["purl"] == "pkg:pypi/odradek@0.2.0"
    assert subject["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    assert [one["purl"] for one in bill["components"]] == [
        "pkg:pypi/clicky-tools@8.2",
        "pkg:pypi/wordy@1",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9",
    ]
    assert not any("licenses" in one for one in bill["components"]), "a whole text is no name"


def test_a_bill_says_what_needs_what_of_what_is_there(bill: dict[str, Any]) -> None:
    needs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert needs["pkg:pypi/odradek@0.2.0"] == ["pkg:pypi/clicky-tools@8.2"]
    assert needs["pkg:pypi/clicky-tools@8.2"] == []


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
def test_a_reader_checks_the_signature_and_the_digests(tmp_path: Path) -> None:
    def call(*command: str, said: str = "") -> int:
        done = subprocess.run(command, cwd=tmp_path, input=said, text=True, capture_output=True, check=False)
        return done.returncode

    key, file = tmp_path / "key", tmp_path / "odradek.whl"
    assert call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)) == 0
    file.write_bytes(b"wheel")
    sums = signing.write_sums([file], tmp_path)
    signature = signing.sign(sums, key)
    (tmp_path / "signers").write_text(f"release {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "release", "-n", signing.NAMESPACE]
    verify += ["-s", signature.name]
    assert call(*verify, said=sums.read_text()) == 0 and call("sha256sum", "--check", sums.name) == 0
    assert call(*verify, said=sums.read_text().replace("odradek", "other")) != 0
    file.write_bytes(b"another")
    assert call("sha256sum", "--check", sums.name) != 0
    with pytest.raises(ReleaseError, match="ssh-keygen -Y sign"):
        signing.sign(sums, tmp_path / "missing")
