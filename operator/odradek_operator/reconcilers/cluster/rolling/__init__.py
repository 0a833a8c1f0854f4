"""Replaces pods one at a time: which one is next, what a step waits for, and whether a drain may take one."""
