"""The door of this room: most controllers change no settings, ACLs or tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek.metadata.controller.acl_changes import AclChanges as AclChanges
    from odradek.metadata.controller.client_configs import operations_of as operations_of
    from odradek.metadata.controller.config_changes import ConfigChanges as ConfigChanges
    from odradek.metadata.image.token_nodes import path_of as path_of
    from odradek.metadata.image.token_nodes import write_token as write_token
else:
    __getattr__ = open_late(
        __name__,
        {
            "AclChanges": "odradek.metadata.controller.acl_changes",
            "operations_of": "odradek.metadata.controller.client_configs",
            "ConfigChanges": "odradek.metadata.controller.config_changes",
            "path_of": "odradek.metadata.image.token_nodes",
            "write_token": "odradek.metadata.image.token_nodes",
        },
    )
