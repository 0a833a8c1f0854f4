"""The start of a Mirror's worker: its file and the clusters' client.properties are put together, in memory only.

The program is given as text, because an older image does not have it. It is Python, since a properties file of others
may be of any form that Java reads: the image's own reader takes it. What comes out holds passwords, so it is a file
without a name, which the mirror inherits and which goes with it.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.names import HTTP_PORT
from odradek_operator.desired.scripts import SETTINGS_FOLDER

CLUSTERS_FOLDER: Final = "/etc/odradek-clusters"

START: Final = f"""\
import os, pathlib, sys
from odradek.foundation.properties import parse_properties
folder = pathlib.Path("{CLUSTERS_FOLDER}")
settings = pathlib.Path("{SETTINGS_FOLDER}/mirror.properties")
entries = {{}}
for cluster in sorted(folder.iterdir()) if folder.is_dir() else ():
    file = cluster / "client.properties"
    if not file.is_file():
        sys.exit(f"{{file}} is missing: the Secret or ConfigMap of {{cluster.name}} needs client.properties")
    found = parse_properties(file.read_text(encoding="utf-8"), source=str(file))
    entries |= {{f"{{cluster.name}}.{{key}}": value for key, value in found.items()}}
entries |= parse_properties(settings.read_text(encoding="utf-8"), source=str(settings))
def escaped(text):
    text = text.replace("\\\\", "\\\\\\\\").replace("\\n", "\\\\n").replace("\\r", "\\\\r")
    return "\\\\" + text if text[:1] in (" ", "\\t") else text
together = os.memfd_create("mirror.properties", 0)
with os.fdopen(os.dup(together), "w", encoding="utf-8") as file:
    file.writelines(f"{{key}}={{escaped(value)}}\\n" for key, value in entries.items())
os.execvp("odradek", ["odradek", "mirror", "--config", f"/proc/self/fd/{{together}}", "--admin", ":{HTTP_PORT}"])
"""
"""Its errors name files and never what is in them."""
