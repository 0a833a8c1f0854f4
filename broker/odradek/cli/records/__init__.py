"""Verbs that write, read, show and measure records."""
