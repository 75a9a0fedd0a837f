"""The documentation site in a real browser: pages fit, and a search finds them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium

SITE = Path(__file__).parents[2] / "build" / "site"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Serve the site that `make docs` has built."""
    if not (SITE / "index.html").exists():
        pytest.skip("`make docs` has not built the site")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "path", ["index.html", "docs/how-to/verify-agents.html", "docs/reference/api/plait.client.html"]
)
def test_a_page_of_the_site_fits_and_has_no_problem(
    browser: Chromium, site: str, shots: Path, path: str
) -> None:
    with browser.open(f"{site}/{path}") as page:
        for dark in (False, True):
            for width in (1400, 390):
                page.look(width=width, height=1000, dark=dark)
                page.goto(f"{site}/{path}")  # it chooses its colours when it is loaded
                # The search box moves to its place.
                page.wait_for("document.documentElement.scrollWidth <= innerWidth", 10)
                shade = "dark" if dark else "light"
                page.screenshot(shots / f"site-{Path(path).stem}-{shade}-{width}.png")


def test_a_word_is_searched_and_its_page_opens(browser: Chromium, site: str) -> None:
    with browser.open(f"{site}/index.html") as page:
        page.click(".md-search__input")
        page.type("kappa")
        found = "document.querySelector('.md-search-result__item a[href*=verify-judges]')"
        page.wait_for(f"!!{found}")
        page.evaluate(f"{found}.click()")
        page.wait_for("document.querySelector('h1')?.innerText.includes('Judges')")
