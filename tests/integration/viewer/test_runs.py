"""Runs are listed, shown, followed while they go on, and compared; nothing else can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plait.html.conversation import step_articles
from plait.traces.codec import line_from_event
from plait.viewer.app import ViewerOptions
from tests.integration.viewer.conftest import viewing
from tests.unit.html.sample_runs import full_run, hostile_run, long_run

pytestmark = pytest.mark.anyio


def _addresses(text: str) -> list[str]:
    return re.findall(r'href="(/runs/[0-9a-f]+/\w+)"', text)


async def test_runs_are_listed_shown_and_compared(tmp_path: Path) -> None:
    runs = [full_run(), full_run(run="b2", warmer=3.0)]
    lines = [line_from_event(event) for run in runs for event in run.events]
    (tmp_path / "runs.jsonl").write_bytes(b"".join(lines))
    async with viewing(ViewerOptions(paths=[tmp_path])) as client:
        listed = await client.get("/runs")
        addresses = _addresses(listed.text)
        pages = [await client.get(address) for address in addresses]
        chosen = re.findall(r'name="run" value="([^"]+)"', listed.text)
        compared = await client.get("/compare", params={"run": chosen})
        by_letter = await client.get("/compare", params={"a": chosen[0], "b": chosen[1]})
        missing = await client.get("/compare", params={"a": chosen[0], "b": "nothing"})

    assert len(addresses) == 2
    assert all(page.status_code == 200 and "Köln is warmer." in page.text for page in pages)
    assert "data-live" not in pages[0].text
    assert compared.status_code == 200
    assert "differ" in compared.text
    assert by_letter.text == compared.text
    assert missing.status_code == 404


async def test_a_run_that_is_being_written_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    events = full_run().events
    path.write_bytes(b"".join(map(line_from_event, events[:4])))
    async with viewing(ViewerOptions(paths=[tmp_path])) as client:
        (address,) = _addresses((await client.get("/runs")).text)
        page = await client.get(address)
        live = re.search(r'data-live="([^"]+)"', page.text)
        assert live is not None
        nothing = (await client.get(live[1], params={"after": events[3].id})).json()
        path.write_bytes(b"".join(map(line_from_event, events)))
        news = (await client.get(live[1], params={"after": events[3].id})).json()
        bad = await client.get(live[1], params={"after": "x"})

    assert nothing == {"last": events[3].id}
    assert news["ended"] is True
    assert news["last"] == events[-1].id
    assert "Köln is warmer." in news["html"]
    assert "completed" in news["head"]
    assert bad.status_code == 404


async def test_a_long_run_comes_in_pieces(tmp_path: Path) -> None:
    trace = long_run(2_000)
    (tmp_path / "run.jsonl").write_bytes(b"".join(map(line_from_event, trace.events)))
    steps = re.compile(r'<article[^>]* id="(e\d+)"')
    async with viewing(ViewerOptions(paths=[tmp_path])) as client:
        (address,) = _addresses((await client.get("/runs")).text)
        page = (await client.get(address)).text
        first = steps.findall(page)
        found = set(first)
        news = {"more": True, "last": max(int(one[1:]) for one in first)}
        pieces = 0
        while news["more"]:
            reply = await client.get(f"{address}/steps", params={"after": news["last"]})
            news = reply.json()
            found |= set(steps.findall(news["html"]))
            pieces += 1

    assert len(first) == 600
    assert pieces > 1
    assert news["ended"] is True
    assert found == {key for key, _ in step_articles(trace)}


async def test_an_unchanged_list_is_not_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(map(line_from_event, full_run().events)))
    async with viewing(ViewerOptions(paths=[tmp_path])) as client:
        tag = (await client.get("/runs")).headers["etag"]
        same = await client.get("/runs", headers={"If-None-Match": tag})
        (tmp_path / "new.jsonl").write_bytes(path.read_bytes())
        other = await client.get("/runs", headers={"If-None-Match": tag})

    assert same.status_code == 304
    assert other.status_code == 200
    assert len(_addresses(other.text)) == 2


async def test_only_listed_files_are_read(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    data = b"".join(map(line_from_event, full_run().events))
    (tmp_path / "secret.jsonl").write_bytes(data)
    (shown / "run.jsonl").write_bytes(data)
    (shown / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    async with viewing(ViewerOptions(paths=[shown])) as client:
        assert len(_addresses((await client.get("/runs")).text)) == 1
        for path in (
            "/runs/../secret.jsonl",
            "/runs/..%2fsecret.jsonl/a1b2c3d4e5f6",
            "/runs/%2e%2e/secret.jsonl",
            "/assets/..%2f..%2fguard.py",
            "/assets/%2e%2e/__init__.py",
            f"/runs/{tmp_path}/secret.jsonl",
        ):
            assert (await client.get(path)).status_code == 404, path


async def test_a_hostile_run_is_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(map(line_from_event, hostile_run().events)))
    async with viewing(ViewerOptions(paths=[tmp_path])) as client:
        listed = (await client.get("/runs")).text
        (address,) = _addresses(listed)
        page = (await client.get(address)).text
        (source,) = re.findall(r'data-src="([^"]+/content)"', page)[:1]
        whole = await client.get(source)

    for text in (listed, page):
        assert "<script>" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert len(page) < 300_000  # texts of 5 MB are requested when they are unfolded
    assert whole.headers["content-type"].startswith("text/plain")
    assert len(whole.content) > 1_000_000
