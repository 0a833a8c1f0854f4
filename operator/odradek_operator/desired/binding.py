"""What clients need to connect, ready to be mounted: ConfigMaps, one for programs and one of options for Spark.

Nothing in them is secret, so the operator needs no right on Secrets. The keys are those of the Service Binding
specification. Where its Secret is wanted, people make it: the chart `odradek` has `serviceBinding.enabled`.
"""

from __future__ import annotations

from odradek_operator.desired.names import BROKER, INTERNAL_PORT, Context, Json


def binding_config_map(context: Context) -> Json:
    """The binding. `type`, `host` and `port` are the names of the Service Binding specification; the rest Kafka's."""
    return context.manifest(
        "v1",
        "ConfigMap",
        context.called("binding"),
        BROKER,
        data=_binding(context),
    )


def _binding(context: Context) -> dict[str, str]:
    return {
        "type": "kafka",
        "provider": "odradek",
        "host": context.dns(context.called("bootstrap")),
        "port": str(INTERNAL_PORT),
        "bootstrap.servers": context.bootstrap,
        "bootstrapServers": context.bootstrap,
        "security.protocol": "PLAINTEXT",
        "client.properties": f"bootstrap.servers={context.bootstrap}\nsecurity.protocol=PLAINTEXT\n",
    }


def spark_config_map(context: Context) -> Json:
    """Options of Spark by their names: mounted as a folder, or put into a job's configuration."""
    options = {
        "spark.odradek.bootstrap.servers": context.bootstrap,
        "spark.odradek.security.protocol": "PLAINTEXT",
    }
    connector = {
        "kafka.bootstrap.servers": context.bootstrap,
        "kafka.security.protocol": "PLAINTEXT",
    }
    file = "".join(f"{key} {value}\n" for key, value in options.items())
    return context.manifest(
        "v1",
        "ConfigMap",
        context.called("spark"),
        BROKER,
        data={**options, **connector, "spark.properties": file},
    )
