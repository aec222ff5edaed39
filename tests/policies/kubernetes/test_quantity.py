"""What the text of a quantity tells."""

from policies.kubernetes.quantity import count, is_above_zero


def test_count() -> None:
    """Whole numbers are read, with the suffixes in which the API server writes them."""
    texts = ("8", "+8", "1k", "2M", "3G", 4, "1.5", "1Ki", "-1", "", "8\n")
    assert [count(text) for text in texts] == [8, 8, 1000, 2_000_000, 3_000_000_000, 4, None, None, None, None, None]


def test_above_zero() -> None:
    """A digit that is not zero makes a quantity one of something; what is no quantity is none."""
    above = ("1", "0.5", "100m", "+1e3", " 1", 1, 0.5)
    other = ("0", "0.0", "0e9", "-1", "", 0, -1, None, ["1"])
    assert (all(map(is_above_zero, above)), any(map(is_above_zero, other))) == (True, False)
