"""The outside: Kubernetes' API and the brokers, each behind an interface that tests put another thing in place of."""
