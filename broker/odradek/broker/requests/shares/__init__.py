"""Handlers of the APIs of share groups (KIP-932)."""
