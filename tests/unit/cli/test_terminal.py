"""What reaches a terminal is readable and harmless."""

import pytest

from plait.cli.terminal import print_json, print_text, visible


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
