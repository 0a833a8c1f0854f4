"""The door of this room: help and completion of verbs need no client, and output to a file needs no rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from rich.console import Console as Console
    from rich.console import Group as Group
    from rich.live import Live as Live
    from rich.progress import BarColumn as BarColumn
    from rich.progress import DownloadColumn as DownloadColumn
    from rich.progress import Progress as Progress
    from rich.progress import TaskProgressColumn as TaskProgressColumn
    from rich.progress import TextColumn as TextColumn
    from rich.progress import TimeElapsedColumn as TimeElapsedColumn
    from rich.text import Text as Text

    from odradek.cli.shared.atomic_files import replace_file as replace_file
    from odradek.cli.shared.hints import command_name as command_name
    from odradek.cli.shared.hints import hints as hints
    from odradek.cli.shared.property_files import read_entries as read_entries
    from odradek.cli.shared.property_files import read_property_file as read_property_file
    from odradek.client.addresses import parse_addresses as parse_addresses
    from odradek.client.admin.configs import ConfigAdmin as ConfigAdmin
    from odradek.client.admin.groups import GroupAdmin as GroupAdmin
    from odradek.client.client import Client as Client
    from odradek.client.errors import ClientTimeout as ClientTimeout
    from odradek.client.errors import ConnectionFailed as ConnectionFailed
    from odradek.client.results import ResourceType as ResourceType
    from odradek.client.suggestions import with_suggestion as with_suggestion
    from odradek.client.topic_settings import TOPIC_SETTINGS as TOPIC_SETTINGS
    from odradek.foundation.client_limits import COMPLETION_SECONDS_MAX as COMPLETION_SECONDS_MAX
else:
    __getattr__ = open_late(
        __name__,
        {
            "read_property_file": "odradek.cli.shared.property_files",
            "read_entries": "odradek.cli.shared.property_files",
            "parse_addresses": "odradek.client.addresses",
            "COMPLETION_SECONDS_MAX": "odradek.foundation.client_limits",
            "command_name": "odradek.cli.shared.hints",
            "hints": "odradek.cli.shared.hints",
            "replace_file": "odradek.cli.shared.atomic_files",
            "ConfigAdmin": "odradek.client.admin.configs",
            "GroupAdmin": "odradek.client.admin.groups",
            "ResourceType": "odradek.client.results",
            "Client": "odradek.client.client",
            "ClientTimeout": "odradek.client.errors",
            "ConnectionFailed": "odradek.client.errors",
            "with_suggestion": "odradek.client.suggestions",
            "TOPIC_SETTINGS": "odradek.client.topic_settings",
            "Console": "rich.console",
            "Group": "rich.console",
            "Live": "rich.live",
            "BarColumn": "rich.progress",
            "DownloadColumn": "rich.progress",
            "Progress": "rich.progress",
            "TaskProgressColumn": "rich.progress",
            "TextColumn": "rich.progress",
            "TimeElapsedColumn": "rich.progress",
            "Text": "rich.text",
        },
    )
