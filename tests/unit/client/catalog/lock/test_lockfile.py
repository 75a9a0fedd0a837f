"""The lockfile can be read by people, is replaced in one step, and says where it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from plait import ConfigError
from plait.client.catalog.lock import (
    Lockfile,
    file_drift,
    read_lockfile,
    relocked,
    text_from_lockfile,
    updated,
    write_lockfile,
)
from tests.unit.client.catalog.lock.tools import locked, tool

HIDING = tool("hide", "First line.\u202e\nSecond \U000e0041line.", output={"type": "object"})


def test_a_lockfile_can_be_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "plait.lock.json"
    lockfile = Lockfile({"shop": locked(tool(), HIDING), "empty": locked(name=None)})

    write_lockfile(lockfile, path)

    assert read_lockfile(path) == lockfile
    assert list(tmp_path.iterdir()) == [path]


def test_the_text_is_sorted_hides_nothing_and_has_a_line_for_each_line() -> None:
    text = text_from_lockfile(Lockfile({"shop": locked(HIDING)}))

    assert text == snapshot("""\
{
  "version": 1,
  "servers": {
    "shop": {
      "identity": {
        "name": "shop",
        "version": "1",
        "transport": "stdio",
        "target": "shop"
      },
      "tools": {
        "hide": {
          "hash": "sha256:fa67a036d477dad4680fd53dfad0c4734c80d2a394a94d411640893a5017961c",
          "description": [
            "First line.\\u202e",
            "Second \\udb40\\udc41line."
          ],
          "input_schema": {
            "properties": {
              "amount": {
                "type": "number"
              }
            },
            "type": "object"
          },
          "output_schema": {
            "type": "object"
          },
          "annotations": {}
        }
      }
    }
  }
}
""")
    again = text_from_lockfile(Lockfile({"a": locked(tool("x"), tool("b")), "b": locked()}))
    assert again == text_from_lockfile(Lockfile({"b": locked(), "a": locked(tool("b"), tool("x"))}))


def broken(path: Path, text: str) -> ConfigError:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_lockfile(path)
    return caught.value


def test_a_broken_lockfile_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    text = text_from_lockfile(Lockfile({"shop": locked(tool())}))
    edited = text.replace("Pay a bill", "Pay any bill")
    hash_line = next(n for n, line in enumerate(text.split("\n"), 1) if '"hash"' in line)

    conflict = text.replace('      "identity"', '<<<<<<< HEAD\n      "identity"', 1)
    assert f"{path}:5:" in str(broken(path, conflict))
    assert f"{path}:{hash_line}: shop/pay does not match its hash" in str(broken(path, edited))
    assert f"{path}:2: " in str(broken(path, text.replace('"version": 1', '"version": 9', 1)))
    assert "plait lock" in str(broken(path, "[]"))


@pytest.mark.parametrize("again", ['"shop": {"identity": {}, "tools": {}}, ', '"shop": {}, '])
def test_a_key_that_is_there_twice_is_an_error(tmp_path: Path, again: str) -> None:
    text = text_from_lockfile(Lockfile({"shop": locked(tool())}))

    doubled = text.replace('"servers": {', f'"servers": {{{again}', 1)

    assert "the key 'shop' is there twice" in str(broken(tmp_path / "lock.json", doubled))


def test_a_missing_lockfile_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no lockfile.*plait lock") as caught:
        read_lockfile(tmp_path / "no.json")

    assert [problem.code for problem in caught.value.problems] == ["lockfile_missing"]


def test_a_lockfile_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_lockfile(Lockfile({}), tmp_path / "no" / "lock.json")


def test_only_what_is_named_is_accepted() -> None:
    old = Lockfile(
        {"shop": locked(tool(), tool("old", "Something that is gone.")), "gone": locked()}
    )
    seen = {"shop": locked(tool(description="Changed."), tool("new", "A new one, unlike others."))}

    one = updated(old, seen, ["shop/pay"])
    rest = [(drift.kind, drift.tool) for drift in file_drift(one, seen, ["shop"])]

    assert rest == [("removed", "old"), ("added", "new"), ("server_removed", None)]
    both = updated(one, seen, ["shop/old", "shop/new"])
    assert file_drift(both, seen, ["shop", "gone"]) == []
    assert relocked(old, seen, ["shop"]) == Lockfile(seen)
    for wrong in ("shop/none", "shoq"):
        with pytest.raises(ConfigError):
            updated(old, seen, [wrong])


def test_a_tool_of_another_name_is_accepted_name_by_name() -> None:
    renamed = {"shop": locked(tool("transfer"))}
    before = Lockfile({"shop": locked(tool())})

    one = updated(before, renamed, ["shop/transfer"])

    assert [(drift.kind, drift.tool) for drift in file_drift(one, renamed, ["shop"])] == [
        ("removed", "pay")
    ]
    assert updated(before, renamed, ["shop/transfer", "shop/pay"]) == Lockfile(renamed)
