"""What the rules about a Cluster's console refuse: cases of `test_2_rules`."""

from __future__ import annotations

from typing import Any

FOREIGN: dict[str, Any] = {"name": "a", "bootstrap": "a:9092", "clientSecret": "s"}
PROVIDER = {"issuer": "https://id.example", "clientId": "c"}
PASSWORDS = {"authentication": {"type": "scram-sha-512"}}
CERTIFICATES = {"authentication": {"type": "tls"}}

# (the console of a Cluster whose users have passwords, a part of the rule's words)
_WITH_PASSWORDS: list[tuple[dict[str, Any], str]] = [
    ({"user": "u", "logins": {}}, "no user of the console's own does: leave user out"),
    (
        {"logins": {}, "clusters": [{"name": "a", "cluster": "b", "user": "u"}]},
        "no user of the console's own does: leave user out",
    ),
    (
        {"logins": {}, "clusters": [{"name": "a", "bootstrap": "a:9092"}]},
        "with logins each cluster needs them: give clientSecret",
    ),
    (
        {"logins": {"openIdConnect": PROVIDER}, "clusters": [FOREIGN]},
        "sends browsers back to the console: give logins.url",
    ),
    (
        {"logins": {"url": "https://a.example", "openIdConnect": PROVIDER}},
        "openIdConnect is for clusters that take tokens",
    ),
    ({"logins": {"url": "https://a.example/path"}}, "must be an address without a path"),
    (
        {"logins": {"openIdConnect": {**PROVIDER, "issuer": "http://id.example"}}},
        "must be the provider's address as it has it itself",
    ),
    ({"logins": {"openIdConnect": {**PROVIDER, "clientId": "a b"}}}, "must be a name without blanks"),
    (
        {"logins": {"openIdConnect": {**PROVIDER, "scope": "openid  a"}}},
        "must be scopes with one blank between them",
    ),
    (
        {"user": "u", "clusters": [{"name": "-a", "cluster": "b"}]},
        "must be a name of letters, digits",
    ),
    ({"user": "u", "clusters": [{"name": "a"}]}, "give either cluster, a Cluster of this namespace"),
    ({"user": "u", "clusters": [{**FOREIGN, "user": "v"}]}, "user goes with cluster"),
    (
        {"user": "u", "clusters": [{"name": "a", "cluster": "b", "clientSecret": "s"}]},
        "clientSecret goes with bootstrap",
    ),
    (
        {"user": "u", "clusters": [FOREIGN, {"name": "a", "cluster": "b"}]},
        "Duplicate value",
    ),
    (
        {"user": "u", "schemaRegistry": {"url": "https://u:p@registry.example"}},
        "must be a URL as https://HOST:PORT without a login",
    ),
    ({"user": "u", "masks": [{"topics": ["a"]}]}, "this mask hides nothing"),
    (
        {"user": "u", "masks": [{"topics": ["a\tb"], "value": ["$"]}]},
        "must be a name without control characters",
    ),
    (
        {"user": "u", "masks": [{"topics": ["a"], "value": ["$.a[0]"]}]},
        "must be $ for the whole, a path as",
    ),
    (
        {"user": "u", "masks": [{"topics": ["a"], "headers": ["auth*"]}]},
        "must be the whole name of a header",
    ),
]


def console_cases(cluster: dict[str, Any]) -> list[tuple[str, None, dict[str, Any], str]]:
    """New Clusters, each with a console that is refused; `cluster` is what they have besides."""
    consoles = [
        (None, {"allowedHosts": ["https://a"]}, "must be a host name without"),
        (CERTIFICATES, {}, "clients of the internal listener log in"),
        (CERTIFICATES, {"logins": {}}, "console.logins needs users with passwords"),
        *((PASSWORDS, console, words) for console, words in _WITH_PASSWORDS),
    ]
    return [
        (
            "Cluster",
            None,
            {**cluster, **({} if listener is None else {"internalListener": listener}), "console": console},
            words,
        )
        for listener, console, words in consoles
    ]
