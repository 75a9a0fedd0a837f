"""Sessions of a database are listed and shown, and a page changes with its session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from plait.html.elements import Html, h
from plait.reasoning.backends.port import HostCompleter
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.viewer.app import ViewerOptions
from plait.viewer.sections import ReportLine
from tests.integration.viewer.conftest import viewing

pytestmark = pytest.mark.anyio


async def test_a_session_is_listed_shown_and_followed(tmp_path: Path) -> None:
    store = SqlStorage(database_from_text(str(tmp_path / "reasoning.db")))
    async with viewing(ViewerOptions(sessions=store, database="reasoning.db")) as client:
        reasoner = Reasoner(store, HostCompleter())
        empty = await client.get("/thinking")
        first = {"content": "<b>first</b>", "session_id": "a/b"}
        await reasoner.call("reasoning_linear", first)
        listed = await client.get("/thinking", headers={"If-None-Match": empty.headers["etag"]})
        page = await client.get("/thinking/a/b")
        tag = {"If-None-Match": page.headers["etag"]}
        same = await client.get("/thinking/a/b", headers=tag)
        await reasoner.call("reasoning_linear", {"content": "second", "session_id": "a/b"})
        grown = await client.get("/thinking/a/b", headers=tag)
        missing = await client.get("/thinking/none")

    assert "No sessions yet." in empty.text
    assert 'href="/thinking/a/b"' in listed.text
    assert "&lt;b&gt;first&lt;/b&gt;" in page.text
    assert "data-follow" in page.text
    assert same.status_code == 304
    assert "second" in grown.text
    assert missing.status_code == 404


class _Reports:
    """Renders results that are one number in a file."""

    def find(self, path: Path) -> Sequence[Path]:
        return sorted(one.parent for one in path.rglob("results.jsonl"))

    def summary(self, report: Path) -> ReportLine:
        passed, _, runs = self.version(report).partition(" of ")
        return ReportLine(
            suite=report.name.partition("-")[0],
            changed=(report / "results.jsonl").stat().st_mtime,
            models=["small"],
            passed=int(passed),
            failed=int(runs) - int(passed),
            errors=0,
            low=0.1,
            high=0.9,
        )

    def body(self, report: Path) -> Html:
        return h("h1", f"{self.version(report)} passed")

    def version(self, report: Path) -> str:
        return (report / "results.jsonl").read_text()


async def test_reports_are_listed_and_followed(tmp_path: Path) -> None:
    file = tmp_path / "nightly" / "results.jsonl"
    file.parent.mkdir()
    file.write_text("1 of 2")
    (tmp_path / "nightly-before").mkdir()
    (tmp_path / "nightly-before" / "results.jsonl").write_text("2 of 2")
    os.utime(tmp_path / "nightly-before" / "results.jsonl", (1, 1))
    options = ViewerOptions(paths=[tmp_path], reports=_Reports())
    async with viewing(options) as client:
        listed = (await client.get("/reports")).text
        address = listed.split('href="/reports/')[1].split('"')[0]
        page = await client.get(f"/reports/{address}")
        file.write_text("2 of 2")
        tag = {"If-None-Match": page.headers["etag"]}
        later = await client.get(f"/reports/{address}", headers=tag)
        missing = await client.get("/reports/none")

    assert "1 of 2" in listed
    assert "10%–90%" in listed
    assert "pass rates, from 100% to 50%" in listed
    assert ">-50<" in listed
    assert listed.index("1 of 2") < listed.index("2 of 2")  # the newest first
    assert "1 of 2 passed" in page.text
    assert "2 of 2 passed" in later.text
    assert missing.status_code == 404
