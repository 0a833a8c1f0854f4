"""Looks at resources through the `kubernetes` package. Thousands of them would be as many kubectl processes.

Kinds are named as for kubectl: `pods`, `pod`, or a short name such as `pvc`.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from typing import Any

from kubernetes import config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError
from kubernetes.dynamic.resource import Resource, ResourceList
from urllib3.exceptions import HTTPError

ANSWER_SECONDS_MAX = 60.0
REFUSALS = (ApiException, DynamicApiError, HTTPError)
"""What a look may raise beside NoSuchKindError."""


class NoSuchKindError(LookupError):
    """The API server has no kind of this name."""


class Looks:
    """One API server, as a kubeconfig names it."""

    def __init__(self, kubeconfig: str) -> None:
        # The file of known kinds would outlive the cluster.
        with tempfile.TemporaryDirectory() as folder:
            self._client = DynamicClient(
                config.new_client_from_config(config_file=kubeconfig),
                cache_file=os.path.join(folder, "kinds.json"),
            )
        self._kinds: dict[str, Resource] = {}

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        """One resource; None where there is none of this name."""
        try:
            return self._answer(kind, namespace, name=name)
        except NotFoundError:
            return None

    def items(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """All of a kind that a label selector matches."""
        found: list[dict[str, Any]] = self._answer(kind, namespace, label_selector=selector or None)["items"]
        return found

    def _answer(self, kind: str, namespace: str, **query: str | None) -> dict[str, Any]:
        resource = self._kind(kind)
        response = resource.get(
            namespace=namespace if resource.namespaced else None,
            serialize=False,
            _request_timeout=ANSWER_SECONDS_MAX,
            **query,
        )
        answer: dict[str, Any] = json.loads(response.data)
        return answer

    def _kind(self, word: str) -> Resource:
        """Kinds come with the product's definitions, so one that is not known is asked for again."""
        if word not in self._kinds:
            self._client.resources.invalidate_cache()
            self._kinds = {}
            for found in (one for several in self._client.resources for one in several):
                if not isinstance(found, ResourceList):
                    for name in (
                        found.name,
                        found.singular_name or found.kind.lower(),
                        *(found.short_names or ()),
                    ):
                        known = self._kinds.get(name)
                        # The core group has no name; of events, for example, kubectl means its own.
                        if known is None or (not found.group, found.preferred) > (
                            not known.group,
                            known.preferred,
                        ):
                            self._kinds[name] = found
        if word not in self._kinds:
            raise NoSuchKindError(f"the API server has no kind {word!r}")
        return self._kinds[word]


@functools.cache
def looks(kubeconfig: str) -> Looks:
    """The one of this process for a kubeconfig."""
    return Looks(kubeconfig)
