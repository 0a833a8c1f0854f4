"""`odradek console` as a process: it serves without a cluster, ends cleanly, and says where it cannot listen."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

import odradek
from odradek.cli.cluster.console_logins import LoginOptions, check_url, make_login_source, read_oidc
from odradek.cli.cluster.console_run import NamedCluster, check_hosts, connection_words, find_clusters
from odradek.cli.shared import profiles
from odradek.cli.shared.connection_settings import GivenOptions
from odradek.cli.shared.options import CommandSession
from odradek.console.masks import parse_masks
from odradek.foundation.console_limits import CONSOLE_CLUSTERS_MAX
from odradek.foundation.errors import SettingError
from tests.support.broker_process import CHECKOUT, free_port
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration


@contextmanager
def console(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "odradek", "console", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT / "broker")},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_json(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
        document: dict[str, object] = json.load(answer)
        return document


def test_it_serves_a_broker_until_a_signal(bootstrap: str) -> None:
    with console("--bootstrap", bootstrap, "--port", "0") as process:
        assert process.stdout is not None and process.stderr is not None
        ready, kind, url, cluster = process.stdout.readline().split()
        assert (ready, kind, cluster) == ("ready", "console", f"cluster={bootstrap}")
        assert read_json(f"{url}/api/about") == {
            "clusters": [{"name": "cluster", "bootstrap": bootstrap}],
            "version": odradek.__version__,
            "may_change": False,
        }
        assert read_json(f"{url}/api/overview")["verdict"] == "healthy"
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert "Traceback" not in process.stderr.read()


def test_it_serves_before_the_cluster_does_and_warns_of_its_reach() -> None:
    with console("--bootstrap", f"127.0.0.1:{free_port()}", "--port", "0", "--host", "0.0.0.0") as process:
        assert process.stdout is not None and process.stderr is not None
        port = process.stdout.readline().split()[2].rpartition(":")[2]
        assert read_json(f"http://127.0.0.1:{port}/api/about")["may_change"] is False
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert "Let them log in by --logins" in process.stderr.read()


def test_without_a_host_it_serves_on_all_addresses_of_both_families(bootstrap: str, tmp_path: Path) -> None:
    """As a pod starts it: the address of the brokers is in a file."""
    file, port = tmp_path / "client.properties", free_port()
    file.write_text(f"bootstrap.servers={bootstrap}\nsecurity.protocol=PLAINTEXT\n")
    with console("--host", "", "--port", str(port), "--command-config", str(file)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[3] == f"cluster={bootstrap}"
        hosts = ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])]
        for host in hosts:
            with urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=SECONDS_MAX) as answer:
                assert answer.read() == b"ok\n"
        about = read_json(f"http://127.0.0.1:{port}/api/about")
        assert about["clusters"] == [{"name": "cluster", "bootstrap": bootstrap}]


def test_it_serves_several_clusters_each_from_its_file(bootstrap: str, tmp_path: Path) -> None:
    files = {"one": bootstrap, "two": f"127.0.0.1:{free_port()}"}
    for name, address in files.items():
        (tmp_path / f"{name}.properties").write_text(f"bootstrap.servers={address}\n")
    options = [word for name in files for word in ("--cluster", f"{name}={tmp_path}/{name}.properties")]
    with console("--port", "0", *options) as process:
        assert process.stdout is not None
        _, _, url, clusters = process.stdout.readline().split()
        assert clusters == "clusters=one,two"
        about = read_json(f"{url}/api/about")
        assert about["clusters"] == [{"name": name, "bootstrap": address} for name, address in files.items()]
        assert read_json(f"{url}/api/overview?cluster=one")["verdict"] == "healthy"
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0


def test_a_cluster_is_named_by_a_profile_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "of-the-environment:1")
    profiles.create("staging", {"bootstrap.servers": "staging:1", "security.protocol": "SSL"})
    profiles.use("staging")
    file = tmp_path / "production.properties"
    file.write_text("bootstrap.servers=production:1\n")
    staging, production = (one.source for one in find_clusters(session(), ["staging", f"production={file}"]))
    assert (staging.name, staging.bootstrap, staging.security_protocol) == ("staging", "staging:1", "SSL")
    assert staging.connection == ["--profile", "staging"]
    assert (production.name, production.bootstrap) == ("production", "production:1")
    assert (production.security_protocol, production.connection) == (
        "PLAINTEXT",
        ["--command-config", str(file)],
    )
    ((only, _),) = find_clusters(session(), [])
    assert (only.name, only.bootstrap) == ("cluster", "of-the-environment:1")


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (["a b"], "names no cluster"),
        (["../x"], "names no cluster"),
        (["=x"], "names no cluster"),
        (["a="], "names no cluster"),
        (["a={file}", "a={file}"], "is named twice"),
        (["a={empty}"], "bootstrap.servers is missing"),
        (["a={misspelt}"], "did you mean bootstrap.servers"),
        (["nothing"], "there is no profile 'nothing'"),
        (["a={file}.not"], "--cluster .*: there is no such file"),
        ([f"c{number}={{file}}" for number in range(CONSOLE_CLUSTERS_MAX + 1)], "clusters at most"),
    ],
)
def test_clusters_that_cannot_be_are_refused(
    clusters: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file, empty, misspelt = tmp_path / "file", tmp_path / "empty", tmp_path / "misspelt"
    file.write_text("bootstrap.servers=b:1\n")
    empty.write_text("client.id=x\n")
    misspelt.write_text("bootstrap.server=b:1\n")
    with pytest.raises((click.UsageError, SettingError, FileNotFoundError), match=words):
        find_clusters(session(), [one.format(file=file, empty=empty, misspelt=misspelt) for one in clusters])


def test_another_address_beside_named_clusters_is_refused() -> None:
    with pytest.raises(click.UsageError, match="leave --bootstrap out"):
        find_clusters(session(GivenOptions(bootstrap="b:1")), ["staging"])


def test_masks_are_those_of_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text("bootstrap.servers=b:1\n")
    text = "".join(
        f"[[mask]]\nclusters = ['{name}']\ntopics = ['t']\nkey = ['$']\n" for name in ("two", "three")
    )
    masks = parse_masks(text, source="masks")
    clusters = [f"{name}={tmp_path}/{name}" for name in ("one", "two")]
    one, two = (found.source for found in find_clusters(session(), clusters, masks=masks))
    assert (one.showing.is_masked("t"), two.showing.is_masked("t")) == (False, True)
    assert "rule 2 of --masks counts in no cluster" in capsys.readouterr().err


def test_a_field_that_looks_like_a_path_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[[mask]]\ntopics = ['t']\nvalue = ['card.number', '$.card.number', 'iban']\n"
    find_clusters(session(), [], masks=parse_masks(text, source="masks"))
    (line,) = capsys.readouterr().err.splitlines()
    assert "rule 1 of --masks: 'card.number' is the name of one field" in line
    assert "'$.card.number'" in line


def test_a_console_does_not_start_without_its_masks(tmp_path: Path) -> None:
    file = tmp_path / "masks.toml"
    file.write_text("[[mask]]\ntopics = ['t']\nvalu = ['x']\n")
    for path, words in ((file, "rule 1 has 'valu'"), (tmp_path / "gone", "there is no such file")):
        with console("--masks", str(path)) as process:
            assert process.stderr is not None
            assert process.wait(SECONDS_MAX) != 0
            assert words in process.stderr.read()


LOGINS = "bootstrap.servers=b:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism={}\n"


def login_cluster(folder: Path, text: str) -> NamedCluster:
    (folder / "file").write_text(text)
    (found,) = find_clusters(session(), [f"c={folder}/file"])
    return found


def test_a_console_with_logins_shows_nothing_before_one(tmp_path: Path) -> None:
    file = tmp_path / "c.properties"
    file.write_text(LOGINS.format("SCRAM-SHA-512"))
    options = ("--port", "0", "--host", "0.0.0.0", "--command-config", str(file), "--logins")
    with console(*options) as process:
        assert process.stdout is not None and process.stderr is not None
        port = process.stdout.readline().split()[2].rpartition(":")[2]
        about = read_json(f"http://127.0.0.1:{port}/api/about")
        assert about["clusters"] == [{"name": "cluster", "bootstrap": "", "login": "password", "user": None}]
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert "passwords of viewers cross the network in clear" in process.stderr.read()


def test_a_cluster_without_a_name_is_called_by_what_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "b:1")
    (only,) = find_clusters(session(), [])
    with pytest.raises(SettingError, match=r"the cluster of \$ODRADEK_BOOTSTRAP has no logins"):
        make_login_source(*only)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bootstrap.servers=b:1\n", "security.protocol is PLAINTEXT"),
        ("bootstrap.servers=b:1\nsecurity.protocol=SSL\n", "has no logins"),
        ("bootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\n", "sasl.mechanism has to be one of"),
        (LOGINS.format("GSSAPI"), "sasl.mechanism has to be one of"),
    ],
)
def test_viewers_cannot_log_in_where_the_cluster_has_no_logins(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make_login_source(*login_cluster(tmp_path, text))


def test_a_login_of_the_console_itself_has_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make_login_source(*login_cluster(tmp_path, LOGINS.format("PLAIN") + "sasl.jaas.config=x\n"))
    assert (source.mechanism, source.takes_tokens) == ("PLAIN", False)
    assert "sasl.jaas.config has no effect" in capsys.readouterr().err
    assert list(source.cluster.connection) == ["--bootstrap", "b:1", "--command-config", "my.properties"]


def test_the_options_of_a_provider_go_together(tmp_path: Path) -> None:
    tokens = make_login_source(*login_cluster(tmp_path, LOGINS.format("OAUTHBEARER")))
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    given = LoginOptions(True, "https://console.example", "https://issuer.example", "me", str(secret))
    found = read_oidc(given, [tokens])
    assert found is not None and found.client_secret == "s3cret"
    assert found.redirect_url == "https://console.example/login/done"
    for less in (given._replace(url=None), given._replace(issuer=None), given._replace(client_id=None)):
        with pytest.raises(click.UsageError, match="logins at c need --oidc-issuer"):
            read_oidc(less, [tokens])
    with pytest.raises(click.UsageError, match="needs --logins and a cluster"):
        read_oidc(given, [])
    assert read_oidc(LoginOptions(True), []) is None
    for issuer in ("http://issuer.example", "issuer.example", "https://user@issuer.example", "file:///x"):
        with pytest.raises(click.UsageError, match="with https"):
            read_oidc(given._replace(issuer=issuer), [tokens])
    assert read_oidc(given._replace(issuer="http://127.0.0.1:8080"), [tokens]) is not None


def test_the_address_of_a_console_has_no_path() -> None:
    assert check_url(None) is None
    assert check_url("https://console.example/") == "https://console.example"
    for wrong in ("console.example", "ftp://x", "https://x/path", "https://u@x", "https://x?y", "https://"):
        with pytest.raises(click.UsageError, match="is no address of a console"):
            check_url(wrong)


def session(given: GivenOptions | None = None) -> CommandSession:
    return CommandSession(given=given or GivenOptions(), output="table", verbose=False)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with console("--port", str(port)) as process:
            assert process.wait(SECONDS_MAX) == 1
            assert process.stderr is not None
            assert f"cannot listen on 127.0.0.1:{port}" in process.stderr.read()


def test_an_address_of_another_machine_is_no_matter_of_the_port() -> None:
    # An address for documents (RFC 5737), which no machine has.
    with console("--host", "192.0.2.1", "--port", "0") as process:
        assert process.wait(SECONDS_MAX) == 1
        assert process.stderr is not None
        assert "choose another --host" in process.stderr.read()


@pytest.mark.parametrize("name", ["https://console.example.org", "console.example.org:8443", "a/b"])
def test_a_name_that_no_browser_gives_is_refused(name: str) -> None:
    with pytest.raises(click.BadParameter, match="is no name of a host"):
        check_hosts(["console.example.org", "[::1]", "::1", name])


def test_a_line_names_the_cluster_as_the_console_was_started() -> None:
    assert connection_words(GivenOptions()) == []
    given = GivenOptions(bootstrap="b:1", timeout_seconds=3, command_config="c.properties")
    assert connection_words(given) == ["--bootstrap", "b:1", "--command-config", "c.properties"]
