"""The report of a run: findings of its steps, the conditions and status made of them, events."""
