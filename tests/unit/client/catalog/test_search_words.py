from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.deferral import query_words_of, stem, synonyms_of, words_of


@pytest.mark.parametrize(
    "forms",
    [
        ("file", "files", "filed", "filing"),
        ("create", "creates", "created", "creating"),
        ("directory", "directories"),
        ("branch", "branches"),
        ("stop", "stops", "stopped", "stopping"),
        ("relation", "relations", "relate"),
        ("compress", "compressed", "compression"),
    ],
)
def test_the_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("status", "state"), ("thing", "the"), ("sing", "s"), ("need", "ne")]
)
def test_words_that_are_not_alike_stay_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_names_are_split_where_programmers_join_words() -> None:
    assert words_of("getHTTPServer_list-items2") == words_of("get HTTP server list items 2")


def test_words_of_other_scripts_are_words() -> None:
    assert words_of("поиск файлов") == ["поиск", "файлов"]


def test_words_that_tell_nothing_are_left_out() -> None:
    assert words_of("what is in the file") == [stem("file")]


def test_the_name_of_a_file_means_a_file_and_an_abbreviation_does_not() -> None:
    assert query_words_of("open notes.md") == ["open", "file"]
    assert query_words_of("all *.py") == ["all", "file"]
    assert "file" not in query_words_of("wait 2.5 s, e.g. here")


def test_words_of_one_meaning_know_each_other() -> None:
    assert stem("directory") in synonyms_of(stem("folder"))
    assert stem("relation") in synonyms_of(stem("relationship"))
    assert stem("create") in synonyms_of(stem("creation"))
    assert stem("folder") not in synonyms_of(stem("folder"))
    assert synonyms_of("giraffe") == frozenset()


@given(st.text(max_size=60))
def test_any_text_has_words_that_stay_as_they_are(text: str) -> None:
    for word in words_of(text):
        assert word
        assert word == word.lower()
