"""kopf's settings. What is left at its default would put kopf's own names on people's resources."""

from __future__ import annotations

import logging
from typing import Final

import kopf

from odradek_operator.foundation.settings import OperatorSettings

FINALIZER: Final = "odradek.io/kopf"
PREFIX: Final = "kopf.odradek.io"


def kopf_settings(settings: OperatorSettings) -> kopf.OperatorSettings:
    """Own names in storage, no log lines as events, no peering of operators, bounded waits."""
    configured = kopf.OperatorSettings()
    configured.peering.standalone = True
    configured.persistence.finalizer = FINALIZER
    configured.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    configured.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX)
    configured.posting.level = logging.ERROR
    configured.networking.request_timeout = 30
    configured.networking.connect_timeout = 10
    # A role for some namespaces may not look for others, nor for resource definitions as they come and go.
    configured.scanning.disabled = bool(settings.namespaces)
    configured.process.ultimate_exiting_timeout = 10
    return configured
