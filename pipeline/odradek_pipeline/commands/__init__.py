"""The subcommands: one module each, with its settings, its work and its summary."""
