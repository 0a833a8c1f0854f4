"""The gateway to an API server of a test, whose certificate is its own."""

from __future__ import annotations

from kubernetes.aio.client import Configuration

from odradek_operator.gateways.api_server import ApiServerGateway, Configure


def configured_for(url: str, *, token: str | None = None) -> Configure:
    """How to reach the server at `url`, as the user that the token names."""

    async def configure() -> Configuration:
        configuration = Configuration(host=url, verify_ssl=False)
        if token is not None:
            configuration.api_key["BearerToken"] = f"Bearer {token}"
        return configuration

    return configure


def gateway_to(url: str, *, token: str | None = None, account: str | None = None) -> ApiServerGateway:
    """The gateway to the server at `url`; with an account the token's owner acts in its name."""
    headers = {} if account is None else {"Impersonate-User": account}
    return ApiServerGateway(configured_for(url, token=token), headers=headers)
