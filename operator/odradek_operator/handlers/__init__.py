"""The handlers of kopf's events. They decide nothing: each puts a key into the work queue."""
