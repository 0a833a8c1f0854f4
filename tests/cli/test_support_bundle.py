"""`odradek support-bundle`: what is in the file, and that no planted secret and no redacted name is."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.cluster.bundle.archive import BundleArchive
from odradek.cli.cluster.bundle.local_parts import list_files, read_end
from odradek.cli.cluster.bundle.pseudonyms import NameCover
from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker, free_port
from tests.support.local_process import running

SECRET = "hunter2"
BASE64_SECRET = "aHVudGVyMg"
LOG = f"""\
2026-03-01T12:00:00.123Z INFO start: password={SECRET}
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{SECRET}";
GET /metrics Authorization: Basic {BASE64_SECRET}==
oauth answered Bearer {SECRET}.x.y
-----BEGIN PRIVATE KEY-----
{SECRET * 9}
{SECRET}=
-----END PRIVATE KEY-----
connect https://ana:{SECRET}@registry.internal:8081
User:anabel of 10.77.1.2 reads customers-eu-0, and 'deleted-topic' is gone
"""


def contents(path: Path) -> dict[str, str]:
    """The files of a bundle by their names below its one folder."""
    with tarfile.open(path) as archive:
        found: dict[str, str] = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None and member.name.startswith("odradek-support-")
            found[member.name.partition("/")[2]] = file.read().decode()
        return found


def document(files: dict[str, str], name: str) -> Any:
    return json.loads(files[name])


@pytest.mark.integration
def test_a_bundle_has_all_parts_and_no_planted_secret(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "delegation.token.secret.key": SECRET,
        "zookeeper.digest.password": SECRET,
        "my.plugin.password": SECRET,
        "log.retention.hours": "77",
    }
    properties = tmp_path / "client.properties"
    properties.write_text(f"bearer.auth.token={SECRET}\nbasic.auth.user.info=ana:{SECRET}\n")
    log = tmp_path / "broker-0.log"
    log.write_text(LOG)
    broker = Broker(tmp_path, settings=settings, arguments=["--admin", f"127.0.0.1:{port}"])
    with running(broker):
        shell = Shell(broker.bootstrap)
        shell.run("topics", "create", "customers-eu", "--config", "min.insync.replicas=2")
        shell.run("produce", "customers-eu", input=f"{SECRET}\n")
        for group in (
            f"billing password={SECRET}",
            f"{SECRET}-password",
            f'{{"token": "{SECRET}"}}',
            "invoices",
        ):
            shell.run(
                "groups",
                "reset-offsets",
                "--topic",
                "customers-eu",
                "--to-earliest",
                "--execute",
                "--",
                group,
            )
        (broker.data / "notes.txt").write_text(SECRET)
        path = tmp_path / "bundle.tar.gz"
        shell.run("support-bundle", "--admin", f"http://ana:{SECRET}@127.0.0.1:1", code=ExitCode.USAGE)
        assert SECRET not in shell.error and "no address of a port" in shell.error
        options = ["--admin", f"127.0.0.1:{port}", "--admin", "http://127.0.0.1:1"]
        options += ["--log", str(log), "--log", str(tmp_path / "none.log"), "--data", str(broker.data)]
        said = shell.run("support-bundle", str(path), *options, "--command-config", str(properties))
        assert "wrote" in said and "none.log" in shell.error
        assert path.stat().st_mode & 0o777 == 0o600

        files = contents(path)
        for name, text in files.items():
            assert SECRET not in text and BASE64_SECRET not in text, name
        assert "copies" in {one["check"] for one in document(files, "findings.json")["findings"]}
        assert document(files, "cluster.json")["brokers"][0]["id"] == 1
        assert document(files, "cluster.json")["versions"]["1"]["finalized_features"]
        topics = {one["topic"]: one for one in document(files, "topics.json")["topics"]}
        assert topics["customers-eu"]["partitions"][0]["replicas"] == [1]
        groups = document(files, "groups.json")
        assert len(groups["groups"]) == 4 and groups["queues"] == []
        assert {one["group"]: one["lag"] for one in groups["groups"]}["invoices"] == 1
        found = {one["setting"]: one for one in document(files, "settings.json")["brokers"]["1"]}
        assert found["log.retention.hours"]["value"] == "77"
        assert found["log.retention.hours"]["source"] == "static_broker"
        assert document(files, "security.json")["acls"] == "there is no authorizer"
        assert document(files, "transactions.json")["hanging_total"] == 0
        assert (
            "odradek_topics " in files["admin/1/metrics.txt"] and " 200\nready" in files["admin/1/readyz.txt"]
        )
        assert "cannot be reached" in files["admin/2/metrics.failed.txt"]
        listed = {one["path"]: one for one in document(files, "data/1.json")["files"]}
        assert listed["notes.txt"]["bytes"] == len(SECRET)
        assert any(name.startswith("customers-eu-0/") and name.endswith(".log") for name in listed)
        assert "reads customers-eu-0" in files["logs/1.txt"]
        assert "No such file" in files["logs/2.failed.txt"]
        manifest = document(files, "manifest.json")
        assert {one["file"] for one in manifest["files"]} | {"manifest.json"} == set(files)
        assert "records" in {one["what"] for one in manifest["left_out"]}
        assert manifest["masked"] > 8

        # With pseudonyms, and all names that the broker knows.
        redacted = tmp_path / "redacted.tar.gz"
        shell.json("support-bundle", str(redacted), "--redact-names", *options)
        files = contents(redacted)
        for name, text in files.items():
            for hidden in (
                SECRET,
                "customers",
                "invoices",
                "anabel",
                "10.77.1.2",
                "deleted-topic",
                "registry.internal",
            ):
                assert hidden not in text, (name, hidden)
        (pseudonym,) = {
            one["topic"]
            for one in document(files, "topics.json")["topics"]
            if one["topic"].startswith("topic-")
        }
        assert f"{pseudonym}-0/" in files["data/1.json"] and f"{pseudonym}-0," in files["logs/1.txt"]
        assert f'topic="{pseudonym}"' in files["admin/1/metrics.txt"]

        shell.run("support-bundle", str(path), code=ExitCode.EXISTS)


def test_without_a_broker_the_rest_is_written(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    shown = Shell("127.0.0.1:1").json("support-bundle", str(path))
    assert "cluster.failed.txt" in shown["files"]
    files = contents(path)
    assert "127.0.0.1:1" in files["cluster.failed.txt"]
    assert document(files, "versions.json")["odradek"]
    assert document(files, "connection.json")["properties"]["bootstrap.servers"]["value"] == "127.0.0.1:1"


@pytest.mark.integration
def test_a_part_that_fails_ends_no_other(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"a bug with password={SECRET}")

    async def hang(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("odradek.cli.cluster.bundle.cluster_parts.list_groups", fail)
    monkeypatch.setattr("odradek.cli.cluster.bundle.cluster_parts.find_facts", hang)
    path = tmp_path / "bundle.tar.gz"
    shell.run("support-bundle", str(path))
    files = contents(path)
    assert "RuntimeError: a bug with password=[masked]" in files["groups.failed.txt"]
    assert "no answer within" in files["findings.failed.txt"]
    assert document(files, "topics.json") and document(files, "settings.json")


def test_a_bundle_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.cli.cluster.bundle.archive.SUPPORT_FILE_BYTES_MAX", 1_000)
    monkeypatch.setattr("odradek.cli.cluster.bundle.archive.SUPPORT_BYTES_MAX", 2_500)
    path = tmp_path / "bundle.tar.gz"
    with BundleArchive(path, root="odradek-support-x", cover=NameCover(b""), covers_all=False) as archive:
        for number in range(5):
            archive.add_text(f"{number}.txt", "a log. " * 714 + "xx")
    files = contents(path)
    assert sum(len(text) for name, text in files.items() if name != "manifest.json") < 3_000
    assert "shortened" in files["0.txt"]
    left_out = {one["what"]: one["why"] for one in document(files, "manifest.json")["left_out"]}
    assert left_out["the end of 0.txt"] == "of 5000 bytes it has 1000"
    assert left_out["4.txt"] == "the bundle has its bound of bytes"


def test_a_bundle_that_fails_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    with (
        pytest.raises(KeyboardInterrupt),
        BundleArchive(path, root="odradek-support-x", cover=NameCover(b""), covers_all=False),
    ):
        raise KeyboardInterrupt
    assert not path.exists()


def test_the_end_of_a_log_has_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nsecond\nthird\n")
    assert read_end(log, 100) == ("first\nsecond\nthird\n", 0)
    assert read_end(log, 9) == ("third\n", 13)
    with pytest.raises(OSError):
        read_end(tmp_path, 9)


def test_files_are_listed_and_links_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / "00.log").write_text("12345")
    (tmp_path / "link").symlink_to("/etc")
    found, are_there_more = list_files(tmp_path)
    assert not are_there_more
    assert {(one["path"], one["kind"]) for one in found} == {
        ("a-0", "folder"),
        ("a-0/00.log", "file"),
        ("link", "link"),
    }
    monkeypatch.setattr("odradek.cli.cluster.bundle.local_parts.SUPPORT_FILES_LISTED_MAX", 1)
    assert list_files(tmp_path)[1]
    with pytest.raises(NotADirectoryError):
        list_files(tmp_path / "none")


def test_too_many_places_are_refused(tmp_path: Path) -> None:
    options = ["--log", "x"] * 33
    Shell("127.0.0.1:1").run("support-bundle", str(tmp_path / "b"), *options, code=ExitCode.USAGE)
    assert not (tmp_path / "b").exists()
