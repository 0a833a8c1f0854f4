"""Runs `odradek support-bundle`: one part after the other, each within its time, and the file that they go to."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from odradek.cli.cluster.bundle.archive import BundleArchive
from odradek.cli.cluster.bundle.cluster_parts import ClusterParts, Part
from odradek.cli.cluster.bundle.local_parts import (
    describe_connection,
    describe_versions,
    list_files,
    read_end,
)
from odradek.cli.cluster.bundle.masking import is_suspicious
from odradek.cli.cluster.bundle.pseudonyms import HOST, TOPIC, USER, NameCover
from odradek.cli.shared import interrupts
from odradek.cli.shared.admin_option import ADMIN
from odradek.cli.shared.admin_urls import parse_admin_ports
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import count, format_bytes, show_document, warn
from odradek.client.admin.http_port import open_pages
from odradek.client.client import Client
from odradek.client.properties import SECURITY_PROTOCOL
from odradek.client.secured import HttpSecurity, http_security
from odradek.foundation.errors import OdradekError
from odradek.foundation.support_limits import (
    SUPPORT_FILE_BYTES_MAX,
    SUPPORT_PART_SECONDS_MAX,
    SUPPORT_PLACES_MAX,
    SUPPORT_SECONDS_MAX,
)

_PAGES: Final = ("/readyz", "/metrics")
_REQUEST_MS_MAX: Final = round(SUPPORT_PART_SECONDS_MAX * 1000 / 3)
_KEY_BYTES: Final = 32
_MEGABYTE: Final = 1 << 20
_SHOWN_MAX: Final = 10


def support_bundle(
    session: CommandSession,
    *,
    file: Path | None,
    admin_ports: Sequence[str],
    logs: Sequence[Path],
    log_mb: int,
    folders: Sequence[Path],
    redact_names: bool,
) -> None:
    for option, given in ((ADMIN, admin_ports), ("--log", logs), ("--data", folders)):
        if len(given) > SUPPORT_PLACES_MAX:
            raise click.UsageError(
                f"{option} may be given {SUPPORT_PLACES_MAX} times, and is {len(given)} times"
            )
    # Wrong settings raise before a file is made.
    security = http_security(session.settings.security)
    urls = parse_admin_ports(admin_ports, security)
    root = f"odradek-support-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    path = Path(f"{root}.tar.gz") if file is None else file
    cover = NameCover(secrets.token_bytes(_KEY_BYTES))
    with BundleArchive(path, root=root, cover=cover, covers_all=redact_names) as archive:
        _BundleRun(session, archive, security).write_all(urls, logs, log_mb * _MEGABYTE, folders)
        files, left_out = archive.files, archive.left_out
    _report(session, path, files, left_out)


def _report(
    session: CommandSession, path: Path, files: Sequence[str], left_out: Sequence[dict[str, str]]
) -> None:
    size = path.stat().st_size
    document = {"file": str(path), "bytes": size, "files": files, "left_out": left_out}
    if show_document(session.output, document):
        return
    print(f"wrote    {path}: {count(len(files), 'file')}, {format_bytes(size)}")
    for one in left_out[:_SHOWN_MAX]:
        warn(one["why"], about=one["what"])
    if len(left_out) > _SHOWN_MAX:
        warn(f"{len(left_out) - _SHOWN_MAX} more; manifest.json has all", about="left out")
    print(
        "Look through its files before you send it: secrets are masked, and what has no form of one is not known."
    )


class _BundleRun:
    """One bundle. Names are learned from the cluster and from folders before logs and pages are written."""

    def __init__(self, session: CommandSession, archive: BundleArchive, security: HttpSecurity) -> None:
        self._session = session
        self._security = security
        self._archive = archive
        self._deadline = time.monotonic() + SUPPORT_SECONDS_MAX

    def write_all(
        self,
        urls: Sequence[str],
        logs: Sequence[Path],
        log_bytes_max: int,
        folders: Sequence[Path],
    ) -> None:
        """Write all parts. A part that fails ends no other."""
        self._learn_machine()
        self._archive.add_document("versions.json", describe_versions())
        self._archive.add_document("connection.json", describe_connection(self._session.settings))
        interrupts.run(self._write_cluster())
        for number, folder in enumerate(folders, 1):
            self._write_folder(f"data/{number}", folder)
        interrupts.run(self._write_pages(urls))
        for number, log in enumerate(logs, 1):
            self._write_log(f"logs/{number}", log, log_bytes_max)
        for what, given, option in (
            ("pages of brokers", urls, ADMIN),
            ("logs", logs, "--log"),
            ("names of files", folders, "--data"),
        ):
            if not given:
                self._archive.leave_out(what, f"{option} was not given")

    def _learn_machine(self) -> None:
        if not self._archive.covers_all:
            return
        self._archive.cover.add(HOST, [socket.gethostname(), socket.gethostname().partition(".")[0]])
        # A container's user may have no name.
        with contextlib.suppress(KeyError, OSError):
            self._archive.cover.add(USER, [getpass.getuser()])

    # --- the cluster --------------------------------------------------------------------------------------------------

    async def _write_cluster(self) -> None:
        session, archive = self._session, self._archive
        try:
            async with session.open_client(wait_ms_max=_REQUEST_MS_MAX) as client:
                parts = self._parts_of(client)
                for name, ask in parts.parts(archive.leave_out).items():
                    await self._write_part(name, ask)
        except (OdradekError, OSError) as failure:
            archive.add_failure("cluster", failure)

    def _parts_of(self, client: Client) -> ClusterParts:
        settings = self._session.settings
        return ClusterParts(
            client,
            bootstrap=settings.bootstrap.value,
            security_protocol=settings.values[SECURITY_PROTOCOL].value.upper(),
            cover=self._archive.cover,
            covers_all=self._archive.covers_all,
        )

    async def _write_part(self, name: str, ask: Part) -> None:
        seconds = min(SUPPORT_PART_SECONDS_MAX, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                document = await ask()
        except TimeoutError:
            self._archive.add_failure(name, f"no answer within {max(seconds, 0.0):.0f} s")
        # A bug in one part is a text, too: the other parts are wanted all the same.
        except Exception as failure:
            self._archive.add_failure(name, failure)
        else:
            if document is not None:
                self._archive.add_document(f"{name}.json", document)

    async def _write_pages(self, urls: Sequence[str]) -> None:
        for number, url in enumerate(urls, 1):
            for path in _PAGES:
                name = f"admin/{number}{path}"
                seconds = min(SUPPORT_PART_SECONDS_MAX, self._deadline - time.monotonic())
                try:
                    async with open_pages(self._security, seconds_max=max(seconds, 0.1)) as pages:
                        page = await pages.get(url, path, bytes_max=SUPPORT_FILE_BYTES_MAX)
                except OdradekError as failure:
                    self._archive.add_failure(name, failure)
                    continue
                text = page.body.decode(errors="replace")
                self._archive.add_text(f"{name}.txt", f"{url}{path} {page.status}\n{text}")
                if page.is_shortened:
                    self._archive.leave_out(f"the end of {name}", "it is longer than a file may be")

    # --- this machine -------------------------------------------------------------------------------------------------

    def _write_folder(self, name: str, folder: Path) -> None:
        try:
            files, are_there_more = list_files(folder)
        except OSError as failure:
            self._archive.add_failure(name, failure)
            return
        # Folders of partitions whose topic the cluster no longer knows have its name, too.
        topics = {
            Path(str(one["path"])).name.partition(".")[0].rpartition("-")[0]
            for one in files
            if one.get("kind") == "folder"
        }
        found = topics - {""}
        covers_all = self._archive.covers_all
        self._archive.cover.add(TOPIC, found if covers_all else filter(is_suspicious, found))
        if are_there_more:
            self._archive.leave_out(name, f"{count(len(files), 'file')} are listed, and there are more")
        self._archive.add_document(f"{name}.json", {"folder": str(folder), "files": files})

    def _write_log(self, name: str, log: Path, bytes_max: int) -> None:
        try:
            text, left_bytes = read_end(log, bytes_max)
        except OSError as failure:
            self._archive.add_failure(name, failure)
            return
        if left_bytes:
            self._archive.leave_out(
                f"the begin of {log}", f"{count(left_bytes, 'byte')} before the last lines"
            )
        self._archive.add_text(f"{name}.txt", f"{log}\n{text}", is_log=True)
