"""Names that do not exist are answered with the nearest that do."""

import pytest

from plait._support.suggestions import nearest_names, suggest_names


def test_a_slip_of_the_finger_finds_the_name() -> None:
    assert suggest_names("get_curent_time", ["get_current_time", "convert_time"]) == (
        "did you mean 'get_current_time'?"
    )


def test_case_and_dashes_do_not_matter() -> None:
    assert nearest_names("Get-Time", ["get_time"]) == ["get_time"]


def test_a_part_of_a_name_finds_the_names_that_hold_it() -> None:
    assert suggest_names("time", ["get_current_time", "convert_time", "add"]) == (
        "did you mean 'get_current_time' or 'convert_time'?"
    ) or set(nearest_names("time", ["get_current_time", "convert_time", "add"])) == {
        "get_current_time",
        "convert_time",
    }


def test_far_off_names_are_answered_with_what_there_is() -> None:
    assert suggest_names("zzz", ["add", "pay"]) == "there are: add, pay"
    assert suggest_names("zzz", []) == "there are none"
    assert suggest_names("zzz", [f"tool{i}" for i in range(20)]).endswith(", …")


@pytest.mark.timeout(5)
def test_thousands_of_similar_names_are_searched_quickly() -> None:
    names = [f"{'ab' * 30}{number}" for number in range(10_000)]

    assert suggest_names("ab" * 30, names).startswith("did you mean 'abab")
    assert nearest_names("get_curent_time", [*names, "get_current_time"]) == ["get_current_time"]
