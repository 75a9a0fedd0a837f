"""The programs about LangChain print what their pages say.

They stand apart from the others so that both can run side by side: importing LangChain takes time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import EXAMPLES
from tests.docs.programs import check_output, programs_with_output


@pytest.mark.parametrize(
    "program",
    [path for path in programs_with_output() if path.parent == EXAMPLES / "langchain"],
    ids=lambda path: path.name,
)
def test_an_example_prints_what_its_pages_say(program: Path, tmp_path: Path) -> None:
    check_output(program, tmp_path)
