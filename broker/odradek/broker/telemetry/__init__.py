"""Metrics that clients push (KIP-714): which of them each client is asked for, and what it has sent."""
