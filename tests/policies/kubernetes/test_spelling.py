"""Misspelt names."""

from policies.kubernetes.spelling import closest, closest_first, did_you_mean, with_article


def test_names_by_likeness() -> None:
    """What is most like a misspelled name comes first, the others keep their order; a name like none has no nearest."""
    names = ["region", "zone", "superpod", "superpods"]

    assert closest_first("superpodd", names) == ["superpod", "superpods", "region", "zone"]
    assert closest_first("x", names) == names
    assert (closest("zne", names), closest("x", names)) == ("zone", "")


def test_case_makes_no_difference() -> None:
    """A name in other letters is the nearest there is."""
    assert closest("SUPERPOD", ["superpods", "superPod"]) == "superPod"


def test_hint() -> None:
    """A hint names the nearest name, or says what else there is to say."""
    known = ("Deny", "Warn")
    hints = [did_you_mean(name, known, "write one") for name in ("deny", "x")]
    assert hints == ["did you mean Deny?", "write one"]


def test_articles() -> None:
    """A noun that begins with a vowel has the other article."""
    assert [with_article(noun) for noun in ("rack", "accelerator", "")] == ["a rack", "an accelerator", "a "]
