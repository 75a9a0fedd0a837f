"""The reference page says everything that the reader knows, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plait.client import config
from plait.client.config.keys import CLIENT_KEYS, SERVER_LISTS, STRUCTURE_KEYS, server_keys
from plait.client.config.read import read_config
from plait.client.config.servers import RECONNECT_KEYS

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "reference" / "configuration.md"
EXAMPLES = sorted((DOCS / "examples" / "config").glob("*.json"))
ENVIRONMENT = {
    "HOME": "/home/ann",
    **dict.fromkeys(
        ["WEATHER_TOKEN", "GITHUB_TOKEN", "NOTES_KEY", "PLAIT_INPUT_SEARCH_KEY", "SEARCH_KEY"], "x"
    ),
}


def test_every_key_is_on_the_page() -> None:
    prose = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    words = set(re.findall(r"`([^`]+)`", prose))

    known = server_keys(None).spellings | CLIENT_KEYS.spellings | RECONNECT_KEYS.spellings
    assert (known | STRUCTURE_KEYS | set(SERVER_LISTS)) - words == set()


def test_every_code_of_a_problem_is_on_the_page() -> None:
    source = Path(config.__file__).parent
    code = r'\.(?:error|warn|doubt|refuse)\(\s*"([a-z_]+)"'
    used = {name for path in source.glob("*.py") for name in re.findall(code, path.read_text())}

    assert len(used) > 15
    assert used - set(re.findall(r"`([a-z_]+)`", PAGE.read_text())) == set()


def test_every_example_on_the_page_is_the_file_it_names() -> None:
    blocks = re.findall(r"<!-- file: (\S+) -->\n```json\n(.*?)```", PAGE.read_text(), re.DOTALL)

    assert len(blocks) == len(EXAMPLES) == PAGE.read_text().count("```json")
    for name, text in blocks:
        assert (PAGE.parent / name).read_text() == text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_read_without_a_complaint(path: Path) -> None:
    config = read_config(path, environ=ENVIRONMENT)

    assert config.servers
    assert config.warnings == ()
