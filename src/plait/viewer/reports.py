"""The pages of verification reports; what renders them is passed in, and follows their files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plait.traces.html.elements import Html, h
from plait.traces.html.page import page
from plait.viewer.pages import SITE, Live, command, not_found


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
        return Live(version).answer(request, lambda mark: self._list(reports, mark))

    def _list(self, reports: dict[str, Path], mark: Html) -> str:
        rows = [
            h(
                "tr",
                h("td", h("a", str(path), href=f"/reports/{key}")),
                h("td", self.renderer.summary(path)),
                data_item=True,
                tabindex="-1",
            )
            for key, path in reports.items()
        ]
        head = h("thead", h("tr", h("th", "report"), h("th", "result")))
        table = h("div", h("table", head, h("tbody", rows)), class_="wide")
        return page("Reports", h("h1", "Reports"), table if rows else _none(), mark, site=SITE)

    def report(self, request: Request) -> Response:
        """Answer with one report."""
        path = self._reports().get(request.path_params["report"])
        if path is None:
            return not_found("such report")
        build: Callable[[Html], str] = lambda mark: page(  # noqa: E731
            path.name, self.renderer.body(path), mark, site=SITE
        )
        return Live(self.renderer.version(path)).answer(request, build)


def _none() -> Html:
    return h(
        "div",
        h("p", "No verification reports yet. Make one:"),
        command("plait verify init\nplait verify suite.yaml"),
        class_="hint",
    )
