"""Where the audit's facts come from, and where its state is kept: the audit topic, logs, tables, and a folder."""
