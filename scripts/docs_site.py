"""Build the documentation as a site, in build/site; fails on a dead link or an undocumented name.

The pages are laid out as in the repository, so that links between them hold in both places. The
API reference is made from the stubs that list the public names, without importing plait.
"""

from __future__ import annotations

import ast
import logging
import re
import shutil
import sys
import textwrap
from pathlib import Path

import griffe
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
API = Path("docs", "reference", "api")

TABS = re.compile(r"<!-- tabs -->\n(?P<parts>.*?)<!-- end of tabs -->\n", re.DOTALL)
"""Sections that are tabs on the site, and one below the other elsewhere."""

LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<target>[^)\s#]+\.md)\)")


def main() -> None:
    """Build the site, or end with 1 and the reasons."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for page in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(page, PAGES)
    (PAGES / "README.md").write_text(home_page(), "utf-8")
    for page in (PAGES / "docs").rglob("*.md"):
        text = TABS.sub(tabs, page.read_text("utf-8"))
        if page.parent.name == "cli":
            # `[:SECONDS][xTIMES]` in the text of an option is not a link.
            text = re.sub(r"(?m)^- .*$", escape_brackets, text)
        page.write_text(text, "utf-8")
    names = public_names()
    if missing := undocumented(names):
        sys.exit("Public names without a docstring:\n" + "\n".join(missing))
    write_api_pages(names)
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        docs_dir=str(PAGES),
        site_dir=str(SITE),
        nav=navigation(names),
        strict=True,
    )
    try:
        build(config)
    except Abort as error:
        sys.exit(str(error))
    if requests := outside_requests():
        sys.exit("Pages that load something from elsewhere:\n" + "\n".join(requests))
    print("The site is in build/site: python3 -m http.server -d build/site")


def home_page() -> str:
    """Return docs/index.md as the first page of the site, which lies above the others."""
    text = (ROOT / "docs" / "index.md").read_text("utf-8")
    return re.sub(r"\]\((?!https?:|\.\./)", "](docs/", text).replace("](../", "](")


def tabs(found: re.Match[str]) -> str:
    """Turn sections into tabs, whose content is indented."""
    parts = re.split(r"^### (.+)\n", found["parts"], flags=re.MULTILINE)
    return "\n".join(
        f'=== "{title}"\n{textwrap.indent(body, "    ")}'
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    )


def escape_brackets(row: re.Match[str]) -> str:
    """Keep brackets behind brackets from being read as a reference."""
    return row[0].replace("][", "]\\[")


def public_names() -> dict[str, list[str]]:
    """Return the public names of each package that lists them in a stub."""
    stubs = sorted((ROOT / "src" / "plait").rglob("__init__.pyi"))
    return {
        ".".join(stub.parent.relative_to(ROOT / "src").parts): sorted(
            alias.asname or alias.name
            for node in ast.parse(stub.read_text("utf-8")).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        )
        for stub in stubs
    }


def undocumented(names: dict[str, list[str]]) -> list[str]:
    """Return the public names whose definition has no docstring."""
    package = griffe.load("plait", search_paths=[str(ROOT / "src")], resolve_aliases=True)
    found = {
        f"{module}.{name}": package[f"{module}.{name}".removeprefix("plait.")]
        for module, listed in names.items()
        for name in listed
    }
    return sorted(path for path, definition in found.items() if not definition.has_docstring)


def write_api_pages(names: dict[str, list[str]]) -> None:
    """Write a page for each package, with the names that it does not have from another one."""
    (PAGES / API).mkdir()
    for module, listed in names.items():
        elsewhere = {name for other in names if other != module for name in names[other]}
        here = [name for name in listed if module != "plait" or name not in elsewhere]
        text = [f"# {module}\n"]
        if also := sorted(set(listed) - set(here)):
            text.append(
                "These names are described with the packages that they are from: "
                + ", ".join(f"`{name}`" for name in also)
                + ".\n"
            )
        text += [f"::: {module}.{name}\n" for name in here]
        (PAGES / API / f"{module}.md").write_text("\n".join(text), "utf-8")


def navigation(names: dict[str, list[str]]) -> list[object]:
    """Return the sections of docs/index.md with their pages, and the API reference."""
    sections = (ROOT / "docs" / "index.md").read_text("utf-8").split("\n## ")[1:]
    entries: list[object] = [{"Home": "README.md"}]
    commands = Path("docs", "reference", "cli")
    seen: set[str] = set()
    for section in sections:
        links: list[object] = []
        for found in LINK.finditer(section):
            target = str((ROOT / "docs" / found["target"]).resolve().relative_to(ROOT))
            if target not in seen:
                seen.add(target)
                links.append(target)
            if target == f"{commands}.md":
                links[-1] = {
                    "Command line": [target, *map(str, page_names(commands))],
                }
        entries.append({section.partition("\n")[0]: links})
    entries.append({"API": [{module: str(API / f"{module}.md")} for module in names]})
    return entries


def page_names(folder: Path) -> list[Path]:
    """Return the pages in a folder of the repository, relative to it."""
    return sorted(page.relative_to(ROOT) for page in (ROOT / folder).glob("*.md"))


def outside_requests() -> list[str]:
    """Return the pages with a script, a style, an image or a frame from elsewhere."""
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?https?:|<link[^>]+stylesheet[^>]+https?:"
    )
    return sorted(
        str(page.relative_to(SITE))
        for page in SITE.rglob("*.html")
        if loads.search(page.read_text("utf-8"))
    )


main()
