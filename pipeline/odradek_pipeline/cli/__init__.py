"""The command line: subcommands from their declared settings, and what a run shows."""
