"""What this distribution needs, as `requires` in pyproject.toml lists it.

Installed from a checkout, it takes `odradek` from the same checkout. A release, its sdist and what is built from that
name the version instead.
"""

from __future__ import annotations

import os
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Requirements(MetadataHookInterface):
    """Sets `dependencies`."""

    def update(self, metadata: dict[str, object]) -> None:
        checkout = Path(self.root).resolve().parent
        is_checkout = (checkout / "broker" / "odradek" / "__init__.py").is_file()
        requires = list(self.config["requires"])
        if is_checkout and "ODRADEK_RELEASE" not in os.environ:
            requires = [
                f"odradek @ {checkout.as_uri()}" if one.startswith("odradek==") else one for one in requires
            ]
        metadata["dependencies"] = requires
