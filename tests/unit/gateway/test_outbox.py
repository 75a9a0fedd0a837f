"""The file behind an outbox keeps letters in order, within its bounds, and for its owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import OutboxError
from plait.gateway.outbox import OutboxStore

URL = "http://gateway.example"


def store_in(folder: Path, max_bytes: int = 1000) -> OutboxStore:
    return OutboxStore(folder / "outbox.db", max_bytes=max_bytes)


def test_only_the_first_letter_of_each_conversation_is_due(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for conversation, body in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        store.put(conversation, URL, {"X": "y"}, body)

    due = store.due(0, 10)
    assert [(one.conversation, one.body) for one in due] == [("a", b"1"), ("b", b"2")]
    assert due[0].headers == {"X": "y"}
    store.remove(due[0].id)
    assert [one.body for one in store.due(0, 10)] == [b"2", b"3"]
    store.close()


def test_a_letter_that_waits_holds_back_those_behind_it_and_no_others(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for conversation, body in (("a", b"1"), ("a", b"2"), ("b", b"3")):
        store.put(conversation, URL, {}, body)
    first = store.due(0, 10)[0]

    store.postpone(first, 100.0, "HTTP 500")

    assert [one.body for one in store.due(99, 10)] == [b"3"]
    assert store.next_time(99) == 100.0
    assert [one.body for one in store.due(100, 10)] == [b"1", b"3"]
    first = store.entries()[0]
    assert (first.attempts, first.last_error) == (1, "HTTP 500")
    store.close()


def test_a_letter_that_is_refused_stays_and_lets_the_next_one_go(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.put("a", URL, {}, b"1")
    store.put("a", URL, {}, b"2")

    store.refuse(store.due(0, 10)[0], "HTTP 400")

    assert [one.body for one in store.due(0, 10)] == [b"2"]
    assert [one.refused for one in store.entries()] == [True, False]
    assert store.waiting() == 1
    store.retry()
    assert [one.body for one in store.due(0, 10)] == [b"1"]
    store.close()


def test_a_full_outbox_takes_no_more_and_loses_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path, max_bytes=10)
    store.put("a", URL, {}, b"123456")

    with pytest.raises(OutboxError, match="full"):
        store.put("a", URL, {}, b"12345")

    store.put("a", URL, {}, b"1234")
    assert [one.body for one in store.entries()] == [b"123456", b"1234"]
    store.close()


def test_the_file_is_for_its_owner_and_what_was_sent_is_gone_from_it(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.put("a", URL, {}, b"a canary sings")
    assert b"a canary sings" in (tmp_path / "outbox.db").read_bytes()

    store.remove(store.entries()[0].id)
    store.close()

    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"a canary sings" not in file.read_bytes()


def test_what_is_stored_is_there_after_opening_again(tmp_path: Path) -> None:
    first = store_in(tmp_path)
    first.put("a", URL, {"X": "ü"}, b"\x00\xff")
    first.close()
    second = store_in(tmp_path)

    (letter,) = second.entries()

    assert (letter.headers, letter.body) == ({"X": "ü"}, b"\x00\xff")
    second.close()


def test_a_file_that_is_something_else_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_text("a text, and not a database at all, however long" * 50)
    store = store_in(tmp_path)

    with pytest.raises(OutboxError, match=r"outbox\.db"):
        store.put("a", URL, {}, b"1")

    store.close()


def test_a_folder_that_is_not_there_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    store = OutboxStore(tmp_path / "missing" / "outbox.db", max_bytes=10)

    with pytest.raises(OutboxError, match=r"missing"):
        store.put("a", URL, {}, b"1")


@settings(max_examples=15)
@given(
    letters=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["sent", "later"])), max_size=8
    )
)
def test_whatever_fails_letters_leave_in_the_order_of_their_conversation(
    letters: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = store_in(tmp_path_factory.mktemp("outbox"), max_bytes=10_000)
    fates: dict[bytes, str] = {}
    for number, (conversation, fate) in enumerate(letters):
        body = f"{conversation}{number}".encode()
        fates[body] = fate
        store.put(conversation, URL, {}, body)
    sent: list[bytes] = []
    now = 0.0
    while store.waiting():
        for letter in store.due(now, 100):
            if fates[letter.body] == "later":
                fates[letter.body] = "sent"
                store.postpone(letter, now + 1, "not yet")
            else:
                sent.append(letter.body)
                store.remove(letter.id)
        now += 1
    store.close()

    assert len(sent) == len(letters)
    for conversation in "abc":
        own = [int(body[1:]) for body in sent if body[:1] == conversation.encode()]
        assert own == sorted(own)
