"""Where kopf's events come in. They decide nothing: each puts a key into the work queue."""
