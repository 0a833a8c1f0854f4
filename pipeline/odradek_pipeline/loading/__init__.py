"""Topics into tables: `load`, `replay`, `stream`, `snapshot`, and the commands that show and clean such a table."""
