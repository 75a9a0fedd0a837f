"""Endpoints of models: their URLs, HTTP clients and models, and Ollama on this machine."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2

from plait._support.http_requests import send_request
from plait._support.mappings import entries_of
from plait._support.sanitize import well_formed_data
from plait.models.call_arguments import arguments_from

OPENAI_URL: Final = "https://api.openai.com/v1"

_OLLAMA_PORT = 11434

_LIST_SECONDS = 5.0
"""Timeout for a list of models, without which one can still be named."""
_CONTEXT_SECONDS = 10.0
"""Timeout for the context length of a model."""

_BOUND_TO_ALL = frozenset({"0.0.0.0", "::", ""})  # noqa: S104
"""Values of `OLLAMA_HOST` that bind to all interfaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A detected endpoint."""

    base_url: str
    """With the path of the protocol's version: `http://127.0.0.1:11434/v1`."""
    models: tuple[str, ...]
    """The models that generate text; at least one."""


def is_loopback(url: str) -> bool:
    """Return whether a URL is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, without secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def endpoint_fault(url: str, *, secret: bool) -> str | None:
    """Return what is wrong with the URL of an endpoint, without quoting it.

    With `secret`, requests carry a key: the URL must be `https`, except on this machine.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its host or port is not valid"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "it is not an http or https URL"
    if parts.username or parts.password:
        return "it contains a user or a password; set the key separately"
    if parts.query or parts.fragment:
        return "it has a query or a fragment"
    if secret and parts.scheme == "http" and not is_loopback(url):
        return "a key may only be sent over https, except to this machine"
    return None


def with_version(base_url: str) -> str:
    """Return the base URL without a trailing slash, and with `/v1` if it has no path."""
    trimmed = base_url.rstrip("/")
    return trimmed if urlsplit(trimmed).path else f"{trimmed}/v1"


def writing_models(names: list[str]) -> tuple[str, ...]:
    """Remove embedding models."""
    return tuple(name for name in names if "embed" not in name.lower())


def ollama_url(host: str | None) -> str | None:
    """Return the URL of Ollama from the value of `OLLAMA_HOST`; `None` if not on this machine.

    Ollama accepts many forms: `127.0.0.1`, `:8080`, `0.0.0.0:8080`, `http://localhost:8080`.
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
    """Find Ollama with a model on this machine; `host` is the value of `OLLAMA_HOST`."""
    url = ollama_url(host)
    if url is None:
        return None
    body = await _get_json(f"{url}/api/tags", None, timeout_seconds)
    models = writing_models(texts_at(body.get("models"), "name"))
    return Endpoint(base_url=f"{url}/v1", models=models) if models else None


def may_look_for_ollama(environ: Mapping[str, str]) -> bool:
    """Return whether to look for Ollama: not if `PLAIT_NO_OLLAMA` is set, except to 0."""
    return environ.get("PLAIT_NO_OLLAMA", "").strip() in ("", "0")


async def list_models(base_url: str, key: str | None = None) -> tuple[str, ...]:
    """List the models of an endpoint that generate text; empty on failure."""
    body = await _get_json(f"{with_version(base_url)}/models", key, _LIST_SECONDS)
    return writing_models(texts_at(body.get("data"), "id"))


async def context_tokens(base_url: str, model: str, key: str | None = None) -> int | None:
    """Return the context length of a model from its endpoint; `None` if unknown."""
    origin = base_url.rstrip("/").removesuffix("/v1")
    body = await _get_json(f"{origin}/v1/models", key, _CONTEXT_SECONDS)
    for entry in _objects(body.get("data")):
        length = entry.get("max_model_len")
        if entry.get("id") == model and isinstance(length, int) and length > 0:
            return length
    return None


def texts_at(items: object, key: str) -> list[str]:
    """Return the strings under a key of the objects in a list; skip anything else."""
    return [text for item in _objects(items) if isinstance(text := item.get(key), str)]


def _objects(items: object) -> list[dict[str, Any]]:
    listed = cast("list[object]", items) if isinstance(items, list) else []
    return [cast("dict[str, Any]", item) for item in listed if isinstance(item, dict)]


async def _get_json(url: str, key: str | None, timeout_seconds: float) -> dict[str, object]:
    """Get a JSON object from an endpoint; empty on failure."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        async with await asyncio.to_thread(provider_client, url) as client:
            reply = await send_request(
                client, "GET", url, headers=headers, timeout_seconds=timeout_seconds
            )
    except (httpx2.RequestError, httpx2.InvalidURL, TimeoutError):
        return {}
    return (reply.json_object() if reply.is_success else None) or {}


def is_transient(status: int) -> bool:
    """Return whether the same request to a provider may succeed after this HTTP status."""
    return status in (408, 429) or status >= 500


def provider_client(base_url: str | None, **options: Any) -> httpx2.AsyncClient:
    """Make an HTTP client for a provider; the caller closes it.

    This is cheap: certificates, the slow part, are read once.
    """
    # No proxy on this machine.
    outside = base_url is None or not is_loopback(base_url)
    settings: dict[str, Any] = {"verify": certificates(), "trust_env": outside}
    settings |= {"follow_redirects": True, **options}
    return httpx2.AsyncClient(**settings)


def certificates() -> ssl.SSLContext:
    """Return the SSL context, cached by `SSL_CERT_FILE` and `SSL_CERT_DIR`: reading it is slow."""
    return _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=8)
def _certificates(file: str | None, folder: str | None) -> ssl.SSLContext:  # noqa: ARG001
    return httpx2.create_ssl_context()


class WrongPageError(Exception):
    """A web page answered in place of an API."""

    def __init__(self, url: str, status: int) -> None:
        """Take the URL, without query and credentials, and the HTTP status."""
        super().__init__(
            f"{url} answered {status} with a web page (HTML), not with the API of a model: check "
            "the base URL"
        )
        self.url = url
        self.status = status


def sdk_client(base_url: str | None) -> httpx2.AsyncClient:
    """Make the HTTP client for the SDK of a provider, which rejects what this one repairs.

    A web page in place of an answer is a `WrongPageError`. The caller closes the client.
    """
    return provider_client(base_url, event_hooks={"response": [_repair_answer]})


async def _repair_answer(response: httpx2.Response) -> None:
    """Repair the arguments of calls in a complete answer: the SDKs reject what is not an object."""
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_page = media_type in ("text/html", "application/xhtml+xml")
    body: object = None
    if response.status_code == 200 and media_type == "application/json":
        content = await response.aread()
        try:
            body = json.loads(content)
        except ValueError:
            is_page = content.lstrip().startswith(b"<")  # a page with the wrong type
    if is_page:
        url = response.request.url.copy_with(query=None, userinfo=b"")
        raise WrongPageError(str(url), response.status_code)
    if not isinstance(body, dict):
        return
    repaired = well_formed_data(cast("dict[str, Any]", body))
    changed = repaired != body
    for block in _objects(repaired.get("content")):  # of Anthropic
        if block.get("type") == "tool_use":
            written, block["input"] = block.get("input"), arguments_from(block.get("input"))
            changed |= block["input"] != written
    calls = _objects(repaired.get("output"))  # of OpenAI
    calls = [item for item in calls if item.get("type") == "function_call"]
    for choice in _objects(repaired.get("choices")):
        chosen = _objects(entries_of(choice.get("message")).get("tool_calls"))
        calls += _objects([call["function"] for call in chosen if call.get("function")])
    for call in calls:
        written = call.get("arguments")
        call["arguments"] = repaired_arguments(written)
        changed |= call["arguments"] != written
    if changed:
        vars(response)["_content"] = json.dumps(repaired).encode()


def repaired_arguments(written: object) -> str:
    """Return the JSON of the arguments of a call as an object; broken JSON is left as it is."""
    if isinstance(written, str):
        try:
            is_object = isinstance(json.loads(written), dict)
        except ValueError:
            is_object = True
        if is_object:
            return written
    return json.dumps(arguments_from(written))
