"""Endpoints that speak OpenAI's protocol: checking their URLs, and finding one on this machine."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

import httpx2

OPENAI_URL: Final = "https://api.openai.com/v1"

_OLLAMA_PORT = 11434

_BOUND_TO_ALL = frozenset({"0.0.0.0", "::", ""})  # noqa: S104
"""What `OLLAMA_HOST` says to listen everywhere, which is no address to connect to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint that was found."""

    base_url: str
    """With the path of the protocol's version: `http://127.0.0.1:11434/v1`."""

    models: tuple[str, ...]
    """The models that can write text; at least one."""


def is_loopback(url: str) -> bool:
    """Say whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return scheme, host and port: the part of a URL that holds no secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def endpoint_fault(url: str, *, secret: bool) -> str | None:
    """Say what is wrong with the URL of an endpoint, without quoting it.

    With `secret`, requests carry a key: such a URL must be `https`, unless it is of this machine.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its host or port is not valid"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "it is not an http or https URL"
    if parts.username or parts.password:
        return "it holds a user or a password; the key has a setting of its own"
    if parts.query or parts.fragment:
        return "it has a query or a fragment"
    if secret and parts.scheme == "http" and not is_loopback(url):
        return "a key may only be sent over https, except to this machine"
    return None


def with_version(base_url: str) -> str:
    """Return the base URL without a slash at its end, and with `/v1` where it has no path."""
    trimmed = base_url.rstrip("/")
    return trimmed if urlsplit(trimmed).path else f"{trimmed}/v1"


def writing_models(names: list[str]) -> tuple[str, ...]:
    """Leave out the models that only embed."""
    return tuple(name for name in names if "embed" not in name.lower())


def ollama_url(host: str | None) -> str | None:
    """Return where Ollama would be, from the value of `OLLAMA_HOST`; `None` if not on this machine.

    Ollama takes many spellings: `127.0.0.1`, `:8080`, `0.0.0.0:8080`, `http://localhost:8080`.
    """
    text = (host or "").strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        name, port = parts.hostname or "", parts.port or _OLLAMA_PORT
    except ValueError:
        return None
    name = "127.0.0.1" if name in _BOUND_TO_ALL else name
    url = f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{port}"
    return url if is_loopback(url) else None


async def find_ollama(host: str | None = None, *, timeout_seconds: float = 0.5) -> Endpoint | None:
    """Look for an Ollama on this machine that has a model; `host` is as in `OLLAMA_HOST`."""
    url = ollama_url(host)
    if url is None:
        return None
    try:
        # Proxies are not for this machine.
        async with asyncio.timeout(timeout_seconds), httpx2.AsyncClient(trust_env=False) as client:
            response = await client.get(f"{url}/api/tags")
            body: object = response.json() if response.is_success else None
    except (httpx2.RequestError, TimeoutError, ValueError):
        return None
    listed = cast("dict[str, object]", body).get("models") if isinstance(body, dict) else None
    models = writing_models(texts_at(listed, "name"))
    return Endpoint(base_url=f"{url}/v1", models=models) if models else None


def may_look_for_ollama(environ: Mapping[str, str]) -> bool:
    """Say whether Ollama may be looked for: unless `PLAIT_NO_OLLAMA` is set, and not to 0."""
    return environ.get("PLAIT_NO_OLLAMA", "").strip() in ("", "0")


async def list_models(
    base_url: str, key: str | None = None, *, timeout_seconds: float = 5.0
) -> tuple[str, ...]:
    """Ask an endpoint for the models that can write text; none if it does not say."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            httpx2.AsyncClient(trust_env=not is_loopback(base_url)) as client,
        ):
            response = await client.get(f"{with_version(base_url)}/models", headers=headers)
            body: object = response.json() if response.is_success else None
    except (httpx2.RequestError, TimeoutError, ValueError):
        return ()
    listed = cast("dict[str, object]", body).get("data") if isinstance(body, dict) else None
    return writing_models(texts_at(listed, "id"))


def texts_at(items: object, key: str) -> list[str]:
    """Collect the texts under a key of the objects in a list; anything else is left out."""
    if not isinstance(items, list):
        return []
    found = [
        cast("dict[str, object]", item).get(key)
        for item in cast("list[object]", items)
        if isinstance(item, dict)
    ]
    return [text for text in found if isinstance(text, str)]
