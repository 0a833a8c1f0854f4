"""TLS contexts, the files they are made of, and the names in certificates."""
