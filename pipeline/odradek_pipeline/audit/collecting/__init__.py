"""The sources of the audit's facts, and the store of its state: the audit topic, logs, tables, and a folder."""
