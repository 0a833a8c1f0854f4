"""An object of Kubernetes as JSON has it: what the API server answers, and what is applied."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
