"""What reaches a terminal is readable and harmless."""

import io

import pytest
from rich.console import Console

from plait.cli.terminal import plain_table, print_json, print_text, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("ring\x07", "ring\\x07"),
        ("\u202etfel", "\\u202etfel"),
        ("over\rwritten", "over\\rwritten"),
        ("windows\r\nline", "windows\nline"),
        ("ünïcödé ✓", "ünïcödé ✓"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_text_goes_into_a_pipe_exactly_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("\x1b[31mred\x1b[0m\r\n")

    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\r\n"


def test_text_gets_the_newline_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("one")
    print_text("two\n")

    assert capsys.readouterr().out == "one\ntwo\n"


def test_json_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, "é"]})

    assert capsys.readouterr().out == '{"a": [1, "é"]}\n'


def test_a_lone_surrogate_does_not_break_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "\ud800"})
    print_text("\ud800")

    assert capsys.readouterr().out == '{"a": "\\ud800"}\n\\ud800\n'


@pytest.mark.parametrize(("width", "left_out"), [(80, ()), (44, ("b",)), (26, ("b", "a"))])
def test_a_table_leaves_columns_out_before_it_breaks_a_word(
    width: int, left_out: tuple[str, ...]
) -> None:
    output = io.StringIO()
    console = Console(file=output, width=width)
    table = plain_table("name", "a", "b", "c", dispensable=("b", "a", "none"))
    words = {"name": "filesystem", "a": "implementation", "b": "transporting", "c": "protocol"}
    table.add_row(*words.values())
    console.print(table)
    printed = output.getvalue()

    assert {name for name, word in words.items() if word not in printed} == set(left_out)
    assert len(printed.splitlines()) == 2


def test_a_long_path_is_folded_and_no_column_is_given_up_for_it() -> None:
    output = io.StringIO()
    console = Console(file=output, width=60)
    table = plain_table("name", "path", dispensable=("name",))
    table.add_row("files", "/" + "a" * 100)
    console.print(table)

    assert "files" in output.getvalue()
