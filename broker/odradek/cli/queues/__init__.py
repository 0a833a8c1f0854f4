"""The verbs of `odradek queues`: share groups (KIP-932)."""
