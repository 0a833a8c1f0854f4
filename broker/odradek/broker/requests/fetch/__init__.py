"""Fetch: records for clients and followers. `handler` has the way of a request, the others its parts."""
