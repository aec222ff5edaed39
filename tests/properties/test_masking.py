"""Records of decisions hold no secret, whatever the objects and the messages are."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import Json
from support.service.reviews import body, violation

from policies.engine.engine import Answer, Decision
from policies.engine.violation import one_line, printable, quote
from policies.objects.masking import MASK, Masking
from properties.shapes import bounded
from webhook.configuration.settings import Content
from webhook.decisions import record
from webhook.decisions.record import Asked
from webhook.http.review import Decoder

_LONGEST = 100_000
# Texts that stand nowhere else, and with what JSON escapes.
_SECRETS = st.builds("s3cret-{}-{}".format, st.integers(0, 99), st.text('ab"\\\n é', max_size=5))
_KEYS = st.sampled_from(["a", "env", "value", "data", "spec", "kind", "name", "metadata"])
_PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.none(), st.just("plain")),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=8,
)


def _variables(secrets: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Environment variables, as a list or a map, and what else may stand there."""
    entry = st.fixed_dictionaries({"name": st.just("N"), "value": secrets}, optional={"x": _PLAIN})
    return st.one_of(st.lists(entry, max_size=3), st.dictionaries(st.sampled_from("NM"), secrets, max_size=2))


_SECRET = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Secret"), "metadata": st.just({"name": "s"})},
    optional={
        "data": st.dictionaries(st.sampled_from("ab"), _SECRETS.map(lambda text: b64encode(text.encode()).decode())),
        "stringData": st.dictionaries(st.sampled_from("ab"), _SECRETS),
    },
)
_PLACES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_PLAIN, _SECRET, st.fixed_dictionaries({"env": _variables(_SECRETS)})),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_KEYS.filter("env".__ne__), inner, max_size=3)
    ),
    max_leaves=6,
)
_WAYS: st.SearchStrategy[Callable[[str], str]] = st.sampled_from(
    [str, printable, partial(quote, limit=1000), one_line]
)  # as messages write values
_OBJECTS = st.one_of(
    _SECRET,
    st.builds(lambda spec: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, _PLACES),
)


def _recorded(obj: Json, told: str, content: Content) -> Mapping[str, Any]:
    """The record of a refusal of an object, and of a warning, that say something."""
    sent = body(obj, old=obj)
    denial = replace(violation(), problem=told)
    answer = Answer((Decision("tidy", "deny", (denial,)),), warnings=(told,))
    asked = Asked(sent, "/validate", Decoder([""]).decode(sent), answer, datetime(2026, 3, 1, tzinfo=UTC), 0.1, "1.37")
    found: Mapping[str, Any] = json.loads(record.line(asked, content, _LONGEST))
    return found


def _texts(value: Any) -> str:
    """All texts in a value, those that are JSON themselves too, without escapes."""
    if isinstance(value, dict):
        return "\0".join(f"{key}\0{_texts(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\0".join(map(_texts, value))
    if isinstance(value, str) and value.startswith("{"):
        return _texts(json.loads(value))
    return str(value)


@bounded
@given(obj=_OBJECTS, content=st.sampled_from(["none", "messages", "objects"]), shown=st.data())
def test_no_record_holds_a_secret(obj: Json, content: Content, shown: st.DataObject) -> None:
    """No value of a Secret or of an environment variable is in a record, in whatever words people were told of it."""
    masking = Masking()
    masking.masked(obj)
    hidden = sorted({text for secret in masking.hidden for text in record.shapes(secret)})
    write = shown.draw(_WAYS)
    told = " ".join(map(write, shown.draw(st.lists(st.sampled_from(hidden), max_size=3)))) if hidden else "nothing"
    kept = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(obj)}  # as kubectl keeps it
    applied = {**obj, "metadata": {**obj["metadata"], "annotations": kept}}
    found = _recorded(applied, f"it is {told}.", content)

    assert found["content"] == content
    assert ("object" in found["request"]) is (content == "objects")
    assert "s3cret" not in _texts(found)
    assert b64encode(b"s3cret").decode()[:8] not in _texts(found)


@bounded
@given(obj=_OBJECTS)
def test_masking_keeps_everything_else(obj: Json) -> None:
    """What is masked has the shape of what was sent: the same keys, and each value itself or the mask."""
    assert _is_masked(Masking().masked(obj), obj)


def _is_masked(found: Any, sent: Any) -> bool:
    if isinstance(sent, dict):
        return (
            isinstance(found, dict) and found.keys() == sent.keys() and all(_is_masked(found[k], sent[k]) for k in sent)
        )
    if isinstance(sent, list):
        return isinstance(found, list) and len(found) == len(sent) and all(map(_is_masked, found, sent))
    return found in (sent, MASK)
