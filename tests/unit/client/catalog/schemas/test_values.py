"""JSON values, compared as JSON compares them."""

import pytest

from plait.client.catalog.schemas.json_schema import distinct


@pytest.mark.parametrize("count", [3, 16, 17, 100])
def test_the_first_of_equal_values_keeps_its_place(count: int) -> None:
    values = [str(number) for number in range(count)]

    assert distinct([*values, values[0], 1, 1.0]) == [*values, 1]
