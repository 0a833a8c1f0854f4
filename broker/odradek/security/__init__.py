"""TLS contexts, the names in certificates, SASL mechanisms and their credentials: no sockets and no requests."""
