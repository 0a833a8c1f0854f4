"""Authentication, TLS and authorization: no sockets and no requests."""
