"""What the doctor finds, as JSON has it."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.admin.diagnosis import Diagnosis


def describe_findings(found: Iterable[Diagnosis]) -> list[dict[str, str]]:
    """Severity, check, message and advice of each."""
    return [
        {
            "severity": one.severity.name.lower(),
            "check": one.check,
            "message": one.words,
            "advice": one.advice,
        }
        for one in found
    ]
