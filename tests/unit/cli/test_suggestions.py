"""Names that do not exist are answered with the nearest that do."""

from plait.cli.suggestions import did_you_mean, nearest


def test_a_slip_of_the_finger_finds_the_name() -> None:
    assert did_you_mean("get_curent_time", ["get_current_time", "convert_time"]) == (
        "did you mean 'get_current_time'?"
    )


def test_case_and_dashes_do_not_matter() -> None:
    assert nearest("Get-Time", ["get_time"]) == ["get_time"]


def test_a_part_of_a_name_finds_the_names_that_hold_it() -> None:
    assert did_you_mean("time", ["get_current_time", "convert_time", "add"]) == (
        "did you mean 'get_current_time' or 'convert_time'?"
    ) or set(nearest("time", ["get_current_time", "convert_time", "add"])) == {
        "get_current_time",
        "convert_time",
    }


def test_far_off_names_are_answered_with_what_there_is() -> None:
    assert did_you_mean("zzz", ["add", "pay"]) == "there are: add, pay"
    assert did_you_mean("zzz", []) == "there are none"
    assert did_you_mean("zzz", [f"tool{i}" for i in range(20)]).endswith(", …")
