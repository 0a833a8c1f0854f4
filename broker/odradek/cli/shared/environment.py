"""The environment variables that the command line reads."""

BOOTSTRAP_VARIABLE = "ODRADEK_BOOTSTRAP"
PROFILE_VARIABLE = "ODRADEK_PROFILE"
COMPLETION_VARIABLE = "_ODRADEK_COMPLETE"
"""Set by a shell that requests completions. click derives the name from the program's name."""
