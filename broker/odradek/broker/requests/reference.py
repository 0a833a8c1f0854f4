"""The reference page of the protocol, made from the table of handlers: `python -m odradek.broker.requests.reference`.

It prints docs/reference/protocol.md. A test holds the page and the tables together, so that an API or a version
cannot be added without its line.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.requests.not_served import ABSENCES
from odradek.broker.requests.table import (
    ADVERTISED_VERSION_MIN,
    CONTROLLER_HANDLERS,
    HANDLERS,
    TELEMETRY_HANDLERS,
)
from odradek.wire.protocol.api import ApiKey

_MADE = "<!-- Made by `make reference` from the tables of handlers; edits here are lost. -->"


def page() -> str:
    """The text of docs/reference/protocol.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _MADE
    yield "# Protocol"
    yield ""
    yield "The APIs of Apache Kafka's protocol. Versions are Kafka 4.4's, so clients from Kafka 2.1 on are served."
    yield "`odradek brokers api-versions` asks a running broker for the same table."
    yield "[compatibility.md](../compatibility.md) says what that means for clients, and which KIPs are there."
    yield ""
    yield "## Served"
    yield ""
    yield "| key | API | versions |"
    yield "| ---: | --- | --- |"
    for api_key, handler in sorted({**HANDLERS, **TELEMETRY_HANDLERS}.items()):
        versions = f"{handler.version_min} to {handler.version_max}"
        if api_key in ADVERTISED_VERSION_MIN:
            versions += f" (listed from {ADVERTISED_VERSION_MIN[api_key]}, as Kafka does for old librdkafka)"
        if api_key in TELEMETRY_HANDLERS:
            versions += " (only with client.telemetry.enable)"
        yield f"| {int(api_key)} | {ApiKey(api_key).kafka_name} | {versions} |"
    yield ""
    yield "A request of another version closes the connection, as with Kafka."
    yield "ApiVersions alone is answered, in version 0."
    yield ""
    yield "A controller's listener serves brokers only. It answers these in addition to some of the above:"
    of_controllers = (api for api in sorted(CONTROLLER_HANDLERS) if api not in HANDLERS)
    yield ", ".join(f"{ApiKey(api).kafka_name} ({int(api)})" for api in of_controllers) + "."
    yield ""
    yield "## Not served"
    yield ""
    yield "ApiVersions does not list these, and a request for one closes the connection."
    yield ""
    yield "| feature | what its users see | APIs |"
    yield "| --- | --- | --- |"
    for absence in ABSENCES:
        of_controller = [api for api in absence.apis if api in CONTROLLER_HANDLERS]
        assert not of_controller, f"{of_controller} are served by controllers"
        names = ", ".join(f"{api.kafka_name} ({int(api)})" for api in absence.apis)
        yield f"| {absence.feature} | {absence.effect} | {names} |"


if __name__ == "__main__":
    print(page(), end="")
