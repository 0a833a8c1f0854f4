"""The subcommands of `audit`."""
