"""The reasoning server's MCP App in a small host, which speaks JSON-RPC with its frame."""

from __future__ import annotations

import asyncio
import html
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from plait.reasoning.backends.settings import BackendPreference, ReasoningSettings
from plait.reasoning.serving.mcp_server import APP_URI, build_server
from plait.reasoning.serving.service import open_service
from plait.reasoning.storage.database import database_from_text
from tests.browser.chromium import Chromium

HOST = """<!doctype html><meta charset="utf-8"><title>host</title>
<style>body {{ margin: 20px; font: 15px sans-serif; background: {colour} }}
iframe {{ width: 900px; height: 300px; border: 1px solid #888; border-radius: 8px }}</style>
<p>A conversation with an agent.</p>
<iframe sandbox="allow-scripts" srcdoc="{app}"></iframe>
<script>
  const frame = document.querySelector("iframe");
  const answers = {answers};
  window.seen = [];
  const send = (message) => frame.contentWindow.postMessage({{ jsonrpc: "2.0", ...message }}, "*");
  addEventListener("message", ({{ data, source }}) => {{
    if (source !== frame.contentWindow || data.jsonrpc !== "2.0") return;
    seen.push(data);
    if (data.method === "ui/initialize") send({{ id: data.id, result: {{
      protocolVersion: data.params.protocolVersion, hostInfo: {{ name: "test", version: "1" }},
      hostCapabilities: {{ serverResources: {{}} }}, hostContext: {{ theme: "{theme}" }} }} }});
    else if (data.method === "ui/notifications/initialized") {{
      send({{ method: "ui/notifications/tool-input", params: {{ arguments: {{}} }} }});
      send({{ method: "ui/notifications/tool-result", params: answers.result }});
    }} else if (data.method === "resources/read") {{
      const contents = answers.resources[data.params.uri];
      if (contents) send({{ id: data.id, result: {{ contents }} }});
      else send({{ id: data.id, error: {{ code: -32002, message: "not found" }} }});
    }} else if (data.method === "ui/notifications/size-changed") {{
      frame.style.height = `${{data.params.height}}px`;
    }}
  }});
</script>
"""
THINKING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("linear", {"content": "Why did latency double?", "confidence": 0.9}),
    (
        "tree",
        {
            "content": "What changed?",
            "branches": [
                {"thought": "Cache misses", "rationale": "p95 rose"},
                {"thought": "<script>alert(1)</script>", "rationale": "hostile"},
            ],
        },
    ),
    ("session_conclude", {"conclusion": "Warm the keys.", "thought_ids": ["t3"]}),
)


async def _served(path: Path) -> dict[str, Any]:
    """Think with the real server, and return what a host gets from it."""
    settings = ReasoningSettings(preference=BackendPreference(backend="host"), profile="full")
    async with open_service(settings, database=database_from_text(str(path))) as service:
        apps = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})]
        async with Client(build_server(service), extensions=apps) as client:
            for tool, arguments in THINKING:
                done = {**arguments, "session_id": "a/b"}
                assert not (await client.call_tool(f"reasoning_{tool}", done)).is_error
            shown = await client.call_tool("reasoning_session_get", {"session_id": "a/b"})
            uri = "reasoning://sessions/a%2Fb/html"
            session = (await client.read_resource(uri)).contents
            (app,) = (await client.read_resource(APP_URI)).contents
    return {
        "app": app.model_dump()["text"],
        "result": shown.model_dump(mode="json", by_alias=True),
        "resources": {uri: [one.model_dump(mode="json", by_alias=True) for one in session]},
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return asyncio.run(_served(tmp_path_factory.mktemp("app") / "reasoning.db"))


def _host(folder: Path, served: dict[str, Any], theme: str) -> str:
    answers = json.dumps({key: served[key] for key in ("result", "resources")})
    page = HOST.format(
        app=html.escape(served["app"]),
        answers=answers.replace("</", "<\\/"),
        theme=theme,
        colour="#222" if theme == "dark" else "#fff",
    )
    (folder / "host.html").write_text(page, "utf-8")
    return (folder / "host.html").as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_app_shows_the_graph_of_the_session_in_its_host(
    browser: Chromium, served: dict[str, Any], tmp_path: Path, shots: Path, theme: str
) -> None:
    with browser.open(_host(tmp_path, served, theme), width=960, height=1200) as page:
        page.wait_for("seen.some(m => m.method === 'resources/read')")
        nodes = "document.querySelectorAll('svg a.node').length"
        page.wait_for_in_frame(f"{nodes} === 5")
        page.wait_for("document.querySelector('iframe').clientHeight > 500")
        assert page.evaluate_in_frame("document.documentElement.dataset.theme") == theme
        assert "<script>alert(1)</script>" in page.evaluate_in_frame("document.body.textContent")
        page.evaluate_in_frame(
            "document.querySelector('svg a[href=\"#t1\"]')"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
        )
        details = page.evaluate_in_frame("document.querySelector('.details').innerText")
        assert "Why did latency double?" in details
        page.screenshot(shots / f"mcp-app-{theme}.png")


def test_the_app_shows_text_where_the_host_reads_no_resources(
    browser: Chromium, served: dict[str, Any], tmp_path: Path
) -> None:
    with browser.open(_host(tmp_path, {**served, "resources": {}}, "light")) as page:
        page.wait_for_in_frame("document.querySelector('main pre')?.innerText.includes('a/b')")
