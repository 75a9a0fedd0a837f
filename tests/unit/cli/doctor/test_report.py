"""What findings look like to a person."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from plait.cli.commands.doctor import print_section, print_summary
from plait.cli.diagnosis import Detail, Finding
from plait.cli.terminal import and_list, share_label, some_of, tokens_label

CASES = tuple(
    Detail(tool=f"shop/{name}", text="x: maxLength moved", profiles=("openai_strict", "gemini"))
    for name in ("add", "pay")
)
FINDINGS = [
    Finding(server="shop", level="ok", code="ready", message="shop: connected"),
    Finding(
        server="shop",
        level="ok",
        code="schema_limits",
        message="limits described in words for openai_strict: 2 tools, such as add",
        details=CASES,
    ),
    Finding(
        server="shop",
        level="warn",
        code="repaired",
        message="repaired: \x1b[2J",
        fix="update the shop",
    ),
    Finding(server="shop", level="error", code="refused", message="refused"),
]


def shown(capsys: pytest.CaptureFixture[str], *, verbose: bool) -> list[str]:
    print_section("shop", "stdio", FINDINGS, verbose=verbose, stderr=["hello"])
    return capsys.readouterr().out.splitlines()


def test_findings_have_marks_and_wrap_under_their_own_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    assert shown(capsys, verbose=False) == snapshot(
        [
            "shop  stdio",
            "  ✓ connected",
            "  · limits described in words for",
            "    openai_strict: 2 tools, such as add",
            "  ! repaired: \\x1b[2J",
            "      fix: update the shop",
            "  ✗ refused",
            "    | hello",
            "",
        ]
    )


def test_every_case_is_shown_to_those_who_ask_for_more(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, verbose=True)

    assert "      shop/add: x: maxLength moved (openai_strict, gemini)" in lines
    assert "      shop/pay: x: maxLength moved (openai_strict, gemini)" in lines


def test_the_summary_counts_what_there_is_to_fix(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary([], FINDINGS)
    print_summary([], FINDINGS[:2])

    assert capsys.readouterr().out.splitlines() == ["1 error, 1 warning", "nothing to fix"]


def test_lists_and_numbers_are_written_for_people() -> None:
    assert and_list([]) == ""
    assert and_list(["a"]) == "a"
    assert and_list(["a", "b", "c"]) == "a, b and c"
    assert some_of(["a", "b", "c"]) == "a, b and c"
    assert some_of(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert (tokens_label(1), tokens_label(20_000)) == ("about 1 token", "about 20,000 tokens")
    assert (share_label(2, 2, "tool"), share_label(1, 3, "tool")) == ("2 tools", "1 of 3 tools")
