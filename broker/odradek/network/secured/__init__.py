"""Connections to listeners that are secured: TLS and a login, before a protocol above sees its transport."""
