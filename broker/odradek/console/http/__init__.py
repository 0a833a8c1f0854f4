"""The console over HTTP: what browsers may ask, and the answers."""
