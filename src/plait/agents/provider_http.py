"""The HTTP client for the API of a model: pages that are no answers, and arguments of calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import httpx2

from plait._support.mappings import entries_of
from plait._support.unicode import well_formed_data
from plait.models.call_arguments import arguments_from
from plait.models.endpoints import provider_client


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


def model_client(base_url: str | None) -> httpx2.AsyncClient:
    """Create the client for one provider; the caller closes it."""
    client = provider_client(base_url)
    client.event_hooks = {"response": [_check_page, _repair_calls]}
    return client


async def _check_page(response: httpx2.Response) -> None:
    if _media_type(response) in ("text/html", "application/xhtml+xml"):
        raise _wrong_page(response)


def _wrong_page(response: httpx2.Response) -> WrongPageError:
    url = response.request.url.copy_with(query=None, userinfo=b"")
    return WrongPageError(str(url), response.status_code)


async def _repair_calls(response: httpx2.Response) -> None:
    """Repair the arguments of calls in a complete answer: the SDKs reject what is not an object."""
    if response.status_code != 200 or _media_type(response) != "application/json":
        return
    content = await response.aread()
    try:
        body = json.loads(content)
    except ValueError:
        if content.lstrip().startswith(b"<"):  # a page with the wrong type
            raise _wrong_page(response) from None
        return
    if not isinstance(body, dict):
        return
    repaired = well_formed_data(cast("dict[str, Any]", body))
    changed = repaired != body
    for block in _blocks(repaired, "content"):
        if block.get("type") == "tool_use":
            written, block["input"] = block.get("input"), arguments_from(block.get("input"))
            changed |= block["input"] != written
    for choice in _blocks(repaired, "choices"):
        for call in _blocks(entries_of(choice.get("message")), "tool_calls"):
            function = cast("dict[str, Any]", entries_of(call.get("function")))
            changed |= _repair(function)
    for item in _blocks(repaired, "output"):
        changed |= item.get("type") == "function_call" and _repair(item)
    if changed:
        vars(response)["_content"] = json.dumps(repaired).encode()


def _repair(call: dict[str, Any]) -> bool:
    """Repair the arguments of a call of OpenAI; returns whether that changes them."""
    written = call.get("arguments")
    if not call or (repaired := repaired_arguments(written)) == written:
        return False
    call["arguments"] = repaired
    return True


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


def _blocks(body: object, name: str) -> Iterator[dict[str, Any]]:
    items = entries_of(body).get(name)
    if isinstance(items, list):
        for item in cast("list[object]", items):
            if isinstance(item, dict):
                yield cast("dict[str, Any]", item)


def _media_type(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()
