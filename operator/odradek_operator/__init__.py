"""The Kubernetes operator's package: custom resources, reconcilers and gateways live here.

It may import `odradek.client` and `odradek.foundation` and nothing else of the broker; the layer contracts hold that
from the first line on.
"""
