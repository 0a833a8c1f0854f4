"""`dead-letters`: what could not be read, listed, sent back to its topic, or decoded again into the table."""
