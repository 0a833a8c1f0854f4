"""A run at work: the protocol of a command, frames of ranges, decoded values, and what is counted."""
