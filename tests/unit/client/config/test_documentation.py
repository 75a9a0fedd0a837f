"""The reference page says everything that the reader knows, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plait.client import config
from plait.client.config.keys import SERVER_LISTS, STRUCTURE_KEYS, server_keys
from plait.client.config.read import read_config
from plait.client.config.servers import RECONNECT_KEYS

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "reference" / "configuration.md"
EXAMPLES = sorted((DOCS / "examples" / "config").glob("*.json"))
ENVIRONMENT = {
    "HOME": "/home/ann",
    **dict.fromkeys(
        ["WEATHER_TOKEN", "API_KEY", "PLAIT_INPUT_SEARCH_KEY", "SEARCH_KEY", "JOB_SECRET"], "x"
    ),
}


def test_every_key_is_on_the_page() -> None:
    prose = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    words = set(re.findall(r"`([^`]+)`", prose))

    # The page says that every key has a form in camelCase; options of clients have a page.
    spellings = server_keys(None).spellings | RECONNECT_KEYS.spellings | STRUCTURE_KEYS
    known = {_snake_case(name) for name in spellings | set(SERVER_LISTS)}
    assert known - {_snake_case(word) for word in words} == set()


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z]+)", r"_\1", name).lower()


def test_every_code_of_a_problem_is_on_the_page() -> None:
    source = Path(config.__file__).parent
    code = r'\.(?:error|warn|doubt|refuse)\(\s*"([a-z_]+)"'
    used = {name for path in source.glob("*.py") for name in re.findall(code, path.read_text())}

    assert len(used) > 15
    assert used - set(re.findall(r"`([a-z_]+)`", PAGE.read_text())) == set()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_read_without_a_complaint(path: Path) -> None:
    config = read_config(path, environ=ENVIRONMENT)

    assert config.servers
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (page.name, text)
        for page in sorted(DOCS.rglob("*.md"))
        for text in re.findall(r"^```json\n(\{.*?)```", page.read_text(), re.DOTALL | re.MULTILINE)
        if '"mcpServers": {' in text
    ],
)
def test_every_configuration_on_a_page_is_read_without_a_complaint(
    page: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / page
    path.write_text(text)

    config = read_config(path, environ=ENVIRONMENT)

    assert config.servers
    assert config.warnings == ()
