"""Connections to the providers of models, and what their endpoints tell of a model."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from collections.abc import Mapping
from typing import cast

import httpx2

from plait.models.endpoints import is_loopback

_TELLING_SECONDS = 10.0
"""How long an endpoint may take to describe its models."""


def provider_client(base_url: str | None) -> httpx2.AsyncClient:
    """Make a client for requests to a provider; whoever asks for it closes it.

    Making one for each run is cheap: what takes long, reading certificates, is done once.
    """
    # Proxies are not for this machine.
    outside = base_url is None or not is_loopback(base_url)
    return httpx2.AsyncClient(verify=certificates(), trust_env=outside, follow_redirects=True)


def certificates() -> ssl.SSLContext:
    """Read the certificates of authorities, once: it takes longer than several turns of an agent.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` say where they are; a change is noticed.
    """
    return _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=8)
def _certificates(file: str | None, folder: str | None) -> ssl.SSLContext:  # noqa: ARG001
    return httpx2.create_ssl_context()


async def context_tokens(base_url: str, model: str, key: str | None = None) -> int | None:
    """Ask an endpoint of OpenAI's protocol how much a model can read; `None` if nobody tells."""
    origin = base_url.rstrip("/").removesuffix("/v1")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        client = await asyncio.to_thread(provider_client, base_url)
        async with asyncio.timeout(_TELLING_SECONDS), client:
            response = await client.get(f"{origin}/v1/models", headers=headers)
            body: object = response.json() if response.is_success else None
    except (httpx2.RequestError, httpx2.InvalidURL, TimeoutError, ValueError):
        return None
    return _length_of(model, body)


def _length_of(model: str, body: object) -> int | None:
    listed = cast("Mapping[str, object]", body).get("data") if isinstance(body, Mapping) else None
    for one in cast("list[object]", listed) if isinstance(listed, list) else []:
        if not isinstance(one, Mapping):
            continue
        told = cast("Mapping[str, object]", one)
        length = told.get("max_model_len")
        if told.get("id") == model and isinstance(length, int) and length > 0:
            return length
    return None
