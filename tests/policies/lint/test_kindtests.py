"""What is known of an expression once the kind of the object is."""

import pytest

from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source
from policies.engine.request import GroupVersionKind
from policies.lint.typecheck import KindTests

_TESTS = KindTests(
    GroupVersionKind("apps", "v1", "Deployment"), {"isPod": parse(Source("object.kind == 'Pod'"))}, {3: True}
)
_DECIDED = {
    "object.kind == 'Pod'": False,
    "object.kind != 'Pod'": True,
    "'Deployment' == oldObject.kind": True,
    "request.kind.group == 'apps' && object.apiVersion == 'apps/v1'": True,
    "object.kind in ['Pod', 'Deployment']": True,
    "!(object.kind in ['Pod'])": True,
    "['Pod', 'Job'].all(k, object.kind != k)": True,
    "['Pod', 'Deployment'].exists(k, object.kind == k)": True,
    "object.kind == 'Pod' || object.spec.a": None,
    "object.kind == 'Pod' && object.spec.a": False,
    "object.spec.a && object.kind == 'Pod'": False,
    "object.kind == 'Pod' ? object.a : true": True,
    "variables.isPod": False,
    "has(object.spec)": True,
    "object.metadata.kind == 'Pod'": None,
    "['Pod'].map(object, object.kind).size() > 0": None,
    "object.kind == object.spec.kind": None,
    "object.kind in object.kinds": None,
}


@pytest.mark.parametrize(("text", "expected"), _DECIDED.items())
def test_tests_of_the_kind_are_decided(text: str, expected: bool | None) -> None:  # noqa: FBT001 - a column of the table
    """What depends on the kind alone is known, and nothing else is."""
    assert _TESTS.decided(parse(Source(text))) is expected
