"""The environment variables that the command line reads."""

BOOTSTRAP_VARIABLE = "ODRADEK_BOOTSTRAP"
PROFILE_VARIABLE = "ODRADEK_PROFILE"
SCHEMA_REGISTRY_VARIABLE = "ODRADEK_SCHEMA_REGISTRY"
COMPLETION_VARIABLE = "_ODRADEK_COMPLETE"
"""Set by a shell that requests completions. click derives the name from the program's name."""
