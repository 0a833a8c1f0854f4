"""What `make e2e-extra` runs: tests that take longer than `make e2e` has, or that need programs of others.

Each file installs what it needs on an empty Kubernetes and takes it away again. The programs of others come from the
Go module proxy and from Debian, are built once, and are kept below ~/.cache.
"""
