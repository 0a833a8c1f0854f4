"""The values that clients need to connect, as ConfigMaps to mount: one for programs and one of options for Spark.

Nothing in them is secret; what a User logs in with is in a Secret of its own. The keys are those of the Service Binding
specification. Where its Secret is wanted, people make it: the chart `odradek` has `serviceBinding.enabled`.
"""

from __future__ import annotations

from odradek_operator.desired.client_properties import (
    client_properties,
    properties_file,
    spark_file,
    spark_options,
)
from odradek_operator.desired.names import BROKER, INTERNAL_PORT, Context, Json
from odradek_operator.desired.security import protocol_of
from odradek_operator.desired.zookeeper_access import client_connect


def binding_config_map(context: Context) -> Json:
    """The binding. `type`, `host` and `port` are the names of the Service Binding specification; the rest Kafka's."""
    return context.manifest(
        "v1",
        "ConfigMap",
        context.object_name("binding"),
        BROKER,
        data=_binding(context),
    )


def internal_authority(context: Context) -> str | None:
    """The authorities that clients of the internal listener trust, in PEM; None without TLS, and for their system's."""
    listener = context.spec.internal_listener
    if listener is None or not listener.tls:
        return None
    return context.authority if listener.certificate is None else listener.certificate.authority


def _properties(context: Context) -> dict[str, str]:
    protocol = protocol_of(context.spec.internal_listener)
    return client_properties(context.bootstrap, protocol, authority=internal_authority(context))


def _binding(context: Context) -> dict[str, str]:
    properties, authority = _properties(context), internal_authority(context)
    return {
        "type": "kafka",
        "provider": "odradek",
        "host": context.dns_name(context.object_name("bootstrap")),
        "port": str(INTERNAL_PORT),
        "bootstrap.servers": context.bootstrap,
        "bootstrapServers": context.bootstrap,
        "security.protocol": properties["security.protocol"],
        "client.properties": properties_file(properties),
        **client_connect(context),
        **({} if authority is None else {"ca.crt": authority}),
    }


def spark_config_map(context: Context) -> Json:
    """Options of Spark by their names: mounted as a folder, or put into a job's configuration."""
    properties = _properties(context)
    options = spark_options(properties)
    connector = {f"kafka.{key}": value for key, value in properties.items()}
    return context.manifest(
        "v1",
        "ConfigMap",
        context.object_name("spark"),
        BROKER,
        data={**options, **connector, "spark.properties": spark_file(options)},
    )
