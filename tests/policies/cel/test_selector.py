"""Selectors as k8s.io/apimachinery 0.36.6 parsed them: nothing is left of those that it refuses."""

import pytest

from policies.cel.library.authorizer import field_requirements, label_requirements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spec.nodeName=a", "spec.nodeName In a"),
        ("a==b", "a In b"),
        ("b!=1,a=2", "a In 2; b NotIn 1"),
        ("a=", "a In "),
        ("=x,=,a=b,,", "a In b"),
        (r"a=b\,c\=d\\", "a In b,c=d\\"),
        (r"a\,b=c", r"a\,b In c"),
        *((text, "") for text in ("", "a", "b=c,a", "a=b=c", r"a=b\x", "a=b\\")),
    ],
)
def test_field_selector(text: str, expected: str) -> None:
    """The requirements are the reference's in its order, without those that have no field."""
    shown = [f"{one.key} {one.operator} {','.join(one.values)}" for one in field_requirements(text)]
    assert "; ".join(shown) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a Exists"),
        ("! a", "a DoesNotExist"),
        ("a=b,a==c", "a In b; a In c"),
        ("b!=c,a=", "a In ; b NotIn c"),
        ("a in (c,b,c)", "a In b|c"),
        ("a notin(x,)", "a NotIn |x"),
        ("a in (,,x)", "a In |x"),
        ("a in ()", "a In "),
        ("in in (in,notin)", "in In in|notin"),
        (" a > 5 ,\tb<6,c", "c Exists"),
        ("a.b/C_d.e-f=x", "a.b/C_d.e-f In x"),
        (f"a>{60 * '0'}7,b", "b Exists"),
        *((text, "") for text in ("", "a,", ",a", "a=b c", "!a=b", "!!a", "a b", "a=(", "a in b", "a in (=)")),
        *((text, "") for text in ("a in (b c)", "a in (b,(", "-a", "X/", "b,a>x", "b,a>-5", 'a in ("\x01é,b-)')),
        *((text, "") for text in (f"a={64 * 'y'}", f"b,a>{10_000 * '9'}")),
    ],
)
def test_label_selector(text: str, expected: str) -> None:
    """The requirements are the reference's, by key, each value once, without comparisons of numbers."""
    shown = [f"{one.key} {one.operator} {'|'.join(one.values)}" for one in label_requirements(text)]
    assert "; ".join(shown).replace("Exists ", "Exists").replace("Exist ", "Exist") == expected
