"""Check the prose of the pages: with proselint, for phrases of our own, and how long it is.

Phrases and the bound are in pyproject.toml. Code, links and HTML comments are left out, but count
as words. What is found is printed as PATH:LINE, and the exit code is 1. Spelling is checked by
codespell.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from proselint.checks import __register__
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parents[1]
NO_PROSE = re.compile(
    r"<!--.*?-->|^ *```.*?^ *```|`[^`\n]*`|\]\([^)\n]*\)|https?://\S+", re.DOTALL | re.MULTILINE
)


def main() -> None:
    """Check every page, and end with 1 if something is found."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["prose"]
    CheckRegistry().register_many(__register__)
    found = [
        f"{page.relative_to(ROOT)}:{line}: {problem}"
        for pattern in settings["pages"]
        for page in sorted(ROOT.glob(pattern))
        for line, problem in problems(page.read_text("utf-8"), settings)
    ]
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    words = sum(len(page.read_text("utf-8").split()) for page in pages)
    if words > settings["max_words"]:
        found.append(f"docs/ and README.md: {words:,} words, over {settings['max_words']:,}")
    if found:
        sys.exit("\n".join(found))


def problems(text: str, settings: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[int, str]]:
    """Return what is wrong with a page, each with its line."""
    prose = NO_PROSE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for phrase, instead in settings["instead"].items():
        for match in re.finditer(rf"(?i)\b{phrase}\b", prose):
            yield prose.count("\n", 0, match.start()) + 1, f'"{match[0]}": write {instead}'
    checks = dict.fromkeys(settings["checks"], True)
    for result in LintFile("page", prose).lint({"max_errors": 1000, "checks": checks}):
        yield result.pos[0], f"{result.check_result.message} ({result.check_result.check_path})"


if __name__ == "__main__":
    main()
