"""Typed settings: each is declared once, and flags, YAML files and pages are made from the declaration."""
