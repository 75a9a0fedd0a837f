"""The pages of verification reports; what renders them is passed in, and follows their files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plait.html.elements import Html, h
from plait.html.page import page
from plait.html.pieces import Column, table, table_row
from plait.viewer.pages import SITE, Live, hint, not_found

_COLUMNS: tuple[Column, ...] = (("report", None), ("result", None))


class ReportRenderer(Protocol):
    """Finds reports and renders them; verification and viewer do not know each other."""

    def find(self, path: Path) -> Sequence[Path]:
        """Return the folders of reports at a path."""
        ...

    def summary(self, report: Path) -> str:
        """Describe a report in one line."""
        ...

    def body(self, report: Path) -> Html:
        """Render a report, complete or not."""
        ...

    def version(self, report: Path) -> str:
        """Return a text that changes whenever the report does."""
        ...


@dataclass(frozen=True, slots=True)
class ReportPages:
    """Answers requests about reports; its functions run in threads, since they read files."""

    paths: Sequence[Path]
    renderer: ReportRenderer

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [Route("/reports", self.list), Route("/reports/{report}", self.report)]

    def _reports(self) -> dict[str, Path]:
        found = [report for path in self.paths for report in self.renderer.find(path)]
        return {hashlib.sha256(str(one.resolve()).encode()).hexdigest()[:16]: one for one in found}

    def list(self, request: Request) -> Response:
        """Answer with all reports."""
        reports = self._reports()
        version = "\n".join(map(self.renderer.version, reports.values()))

        def build(mark: Html) -> str:
            rows = [
                table_row(
                    _COLUMNS,
                    (h("a", str(path), href=f"/reports/{key}"), self.renderer.summary(path)),
                    data_item=True,
                    tabindex="-1",
                )
                for key, path in reports.items()
            ]
            example = "plait verify init\nplait verify suite.yaml"
            empty = hint("No verification reports yet. Make one:", example)
            body = h("div", table(_COLUMNS, rows), class_="wide") if rows else empty
            return page("Reports", h("h1", "Reports"), body, mark, site=SITE)

        return Live(version).answer(request, build)

    def report(self, request: Request) -> Response:
        """Answer with one report."""
        path = self._reports().get(request.path_params["report"])
        if path is None:
            return not_found("such report")

        def build(mark: Html) -> str:
            return page(path.name, self.renderer.body(path), mark, site=SITE)

        return Live(self.renderer.version(path)).answer(request, build)
