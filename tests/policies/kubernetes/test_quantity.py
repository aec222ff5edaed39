"""What the text of a quantity tells."""

import re

import pytest

from policies.podspec import is_above_zero, thousandths


def test_above_zero() -> None:
    """A digit that is not zero makes a quantity one of something; what is no quantity is none."""
    above = ("1", "0.5", "100m", "+1e3", " 1", 1, 0.5)
    other = ("0", "0.0", "0e9", "-1", "", 0, -1, None, ["1"])
    assert (all(map(is_above_zero, above)), any(map(is_above_zero, other))) == (True, False)


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        pytest.param("8", 8000, id="whole"),
        pytest.param(8, 8000, id="number"),
        pytest.param(0.5, 500, id="float"),
        pytest.param("500m", 500, id="thousandths"),
        pytest.param("1.5Gi", 1_610_612_736_000, id="binary"),
        pytest.param(".5Ki", 512_000, id="without-a-whole-part"),
        pytest.param("1.E", 10**21, id="exa"),
        pytest.param("1E3", 10**6, id="exponent"),
        pytest.param("12e-1", 1200, id="negative-exponent"),
        pytest.param("1n", 1, id="rounded-up"),
        pytest.param("0n", 0, id="nothing"),
        pytest.param("1e999999999", (2**63 - 1) * 1000, id="too-much"),
        pytest.param("1e-999999999", 1, id="too-little"),
    ],
)
def test_thousandths(quantity: str | float, expected: int) -> None:
    """An amount comes in thousandths, rounded up, within what 64 bits hold of whole ones."""
    assert thousandths(quantity) == expected


@pytest.mark.parametrize("quantity", ["", ".", "m", "1 ", "-1", "1mi", "1e", "eins", "1Gi2", "٣"])
def test_what_is_no_amount(quantity: str) -> None:
    """Any other text is told."""
    with pytest.raises(ValueError, match=re.escape(f"{quantity!r} is no amount; one such as 8, 500m or 1.5Gi was")):
        thousandths(quantity)
