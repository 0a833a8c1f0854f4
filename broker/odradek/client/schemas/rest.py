"""Reads one schema by Confluent's REST API, which Karapace, Apicurio and Redpanda have too."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession

from odradek.client.errors import SchemaRegistryUnavailable, SchemaUnavailable
from odradek.client.schemas.decoding import RegisteredSchema, SchemaFile
from odradek.foundation.client_limits import (
    CLIENT_RETRY_PAUSE_MS_MAX,
    SCHEMA_BYTES_MAX,
    SCHEMA_REFERENCES_MAX,
)
from odradek.foundation.errors import InvalidRequest

_NOT_FOUND: Final = 404
_NO_LOGIN: Final = 401
_REFUSED: Final = (_NO_LOGIN, 403)
# Answers about the request. Of these, 408, 425 and 429 ask for patience.
_OF_THE_REQUEST: Final = frozenset(range(400, 500)) - {408, 425, 429}
_ACCEPTED: Final = "application/vnd.schemaregistry.v1+json, application/json"
_WORDS_MAX: Final = 200


class RegistryAddress(NamedTuple):
    """`urls` are asked in turn until one answers. `tls` is how an https one is trusted."""

    urls: tuple[str, ...]
    login: tuple[str, str] | None
    token: str | None
    tls: ssl.SSLContext | bool

    def open_session(self) -> ClientSession:
        headers = {"Accept": _ACCEPTED}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        elif self.login is not None:
            encoded = base64.b64encode(":".join(self.login).encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        return ClientSession(headers=headers)


def parse_address(
    url: str, *, login: tuple[str, str] | None, token: str | None, ca_file: str | None
) -> RegistryAddress:
    """The address as a user writes it, with a login in it or beside it. Raises InvalidRequest."""
    urls = []
    for text in filter(None, map(str.strip, url.split(","))):
        parts = urlsplit(text)
        where = parts.netloc.rpartition("@")[2]
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            # A login is not shown.
            raise InvalidRequest(
                f"{where or 'the text'} is no address of a schema registry; write it like http://127.0.0.1:8081"
            )
        if parts.username is not None and login is None and token is None:
            login = (unquote(parts.username), unquote(parts.password or ""))
        urls.append(f"{parts.scheme}://{where}{parts.path.rstrip('/')}")
    if not urls:
        raise InvalidRequest("no schema registry is named; write its address like http://127.0.0.1:8081")
    try:
        tls = True if ca_file is None else ssl.create_default_context(cafile=ca_file)
    except OSError as failure:  # ssl's errors are of this kind
        raise InvalidRequest(
            f"ca_file has to be the PEM file of an authority, and {ca_file!r} cannot be used: {failure}"
        ) from failure
    return RegistryAddress(tuple(urls), login, token, tls)


class SchemaReference(NamedTuple):
    """Another schema that one needs, by the name that it has there."""

    name: str
    subject: str
    version: str


class Answer(NamedTuple):
    """What the registry has of one schema."""

    file: SchemaFile
    references: list[SchemaReference]


class SchemaReader:
    """Reads one schema with all that it refers to. `last_failure` is why an address did not answer, or ""."""

    def __init__(self, address: RegistryAddress, session: ClientSession, schema_id: int) -> None:
        self._address = address
        self._session = session
        self._schema_id = schema_id
        self._references: dict[str, SchemaFile] = {}
        self.last_failure = ""

    async def read(self) -> RegisteredSchema:
        """Ask until an address answers. Raises SchemaUnavailable where an answer is that it cannot be had."""
        about = f"schema {self._schema_id}"
        answer = await self._ask(f"/schemas/ids/{self._schema_id}", about)
        await self._read_references(answer)
        return RegisteredSchema(self._schema_id, answer.file, tuple(self._references.values()))

    async def _read_references(self, answer: Answer) -> None:
        """Add what a schema refers to, each behind what it refers to itself."""
        for name, subject, version in answer.references:
            if name in self._references:
                continue
            if len(self._references) >= SCHEMA_REFERENCES_MAX:
                raise SchemaUnavailable(
                    f"schema {self._schema_id} refers to more than {SCHEMA_REFERENCES_MAX} others"
                )
            self._references[name] = SchemaFile("", "", name)  # where references go round, they end here
            about = f"version {version} of {subject}, to which schema {self._schema_id} refers,"
            path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
            one = await self._ask(path, about)
            await self._read_references(one)
            del self._references[name]
            self._references[name] = one.file._replace(name=name)

    async def _ask(self, path: str, about: str) -> Answer:
        while True:
            for url in self._address.urls:
                try:
                    async with self._session.get(
                        url + path, params={"format": "serialized"}, ssl=self._address.tls
                    ) as response:
                        found = await _take_answer(response, url, about)
                    if found is not None:
                        return found
                    self.last_failure = f"{url} answered {response.status}"
                except (ClientError, OSError) as failure:
                    self.last_failure = f"{url}: {failure or type(failure).__name__}"
            await asyncio.sleep(CLIENT_RETRY_PAUSE_MS_MAX / 1000)


async def _take_answer(response: ClientResponse, url: str, about: str) -> Answer | None:
    """The answer; None for a registry that cannot answer now. Raises SchemaUnavailable."""
    body = b""
    async for part in response.content.iter_chunked(1 << 16):
        body += part
        if len(body) > SCHEMA_BYTES_MAX:
            raise SchemaUnavailable(f"{about} is larger than {SCHEMA_BYTES_MAX} bytes at {url}")
    if response.ok:
        try:
            return _parse_answer(json.loads(body))
        except (ValueError, TypeError, KeyError):
            raise SchemaRegistryUnavailable(
                f"{url} answers as no schema registry does; its REST API may have a path"
            ) from None
    words = " ".join(body[:_WORDS_MAX].decode(errors="replace").split())
    if response.status == _NOT_FOUND:
        raise SchemaUnavailable(f"{about} is not in the registry at {url}: {words}")
    if response.status in _REFUSED:
        kind = SchemaRegistryUnavailable if response.status == _NO_LOGIN else SchemaUnavailable
        raise kind(
            f"{about} may not be read ({url} answered {response.status}): "
            "give SchemaRegistry a user and a password, or a token"
        )
    if response.status in _OF_THE_REQUEST:
        raise SchemaUnavailable(f"{about} is refused by {url}, which answered {response.status}: {words}")
    return None


def _parse_answer(body: dict[str, object]) -> Answer:
    """Raises ValueError, TypeError or KeyError for what a registry does not answer."""
    text, kind, references = body["schema"], body.get("schemaType") or "AVRO", body.get("references") or []
    if not isinstance(text, str) or not isinstance(kind, str) or not isinstance(references, list):
        raise TypeError
    named = [
        SchemaReference(*(str(one[key]) for key in ("name", "subject", "version"))) for one in references
    ]
    return Answer(SchemaFile(kind, text), named)
