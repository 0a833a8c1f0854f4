"""One broker at work: replicas, coordinators, quotas, requests, and the process that joins them."""
