"""Whatever a mutation is made of: if it writes a reserved label, that was told before."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from support.policies.admissionpolicies import binding, inputs, mutating, parameters

from policies.admissionpolicy.model import Expression, NamedExpression
from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.schema import built_in
from policies.engine.request import GroupVersionKind
from policies.labels import is_reserved
from policies.labelwriters.labelwriter import of_policy
from policies.objects.workload import BUILT_IN, table

_TABLE = table(BUILT_IN)
_SCHEMA = built_in(GroupVersionKind("", "v1", "Node"))
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nodes"]}
_BINDING = binding(kind="MutatingAdmissionPolicyBinding")
_KEPT = "a.coreweave.cloud/kept"
_OBJECT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n",
        "labels": {"own": "x", _KEPT: "x"},
        "annotations": {
            "key": "coreweave.cloud/x", "labels": "labels", "pointer": "/metadata/labels/coreweave.cloud~1x",
            "from": "/metadata/labels",
        },
    },
}  # fmt: skip

# Parts of texts, of which every second is computed from the object.
_COMPUTED = st.sampled_from([f"object.metadata.annotations.{name}" for name in ("key", "labels", "pointer", "from")])
_WORDS = [
    "coreweave.cloud/x",
    "coreweave.",
    "cloud/x",
    "example.org/x",
    "metadata",
    "labels",
    "els",
    "",
    "/",
    "~1",
    "1x",
]
_PATHS = ["/metadata", "/metadata/labels", "/metadata/labels/", "/metadata/labels/coreweave.cloud~1x", "/metadata/lab"]
_CONSTANT = st.sampled_from([*_WORDS, *_PATHS]).map(repr)


def _sum(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=1, max_size=4).map(" + ".join)


_TEXTS = _sum(st.one_of(_CONSTANT, _COMPUTED))
_KEYS = st.one_of(_TEXTS, st.sampled_from(["'coreweave.cloud/x'", "'team'", "variables.key"]))
_POINTERS = st.one_of(
    _TEXTS,
    _sum(st.one_of(_CONSTANT, _TEXTS.map(lambda text: f"jsonpatch.escapeKey({text})"))),
    _KEYS.map(lambda key: f"'/metadata/labels/' + jsonpatch.escapeKey({key})"),
    st.just("variables.pointer"),
)
_LABELS = st.recursive(
    st.one_of(
        _KEYS.map(lambda key: f"{{{key}: 'y'}}"),
        st.sampled_from(["{}", "object.metadata.annotations", "variables.labels"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"(object.metadata.name == 'n' ? {pair[0]} : {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"[{pair[0]}, {pair[1]}][0]"),
    ),
    max_leaves=3,
)
_VALUES = st.one_of(st.just("'y'"), _LABELS, _LABELS.map(lambda labels: f"{{'labels': {labels}}}"))
_OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["add", "replace"]), _POINTERS, _VALUES).map(
        lambda parts: "JSONPatch{{op: '{}', path: {}, value: {}}}".format(*parts)
    ),
    st.tuples(st.sampled_from(["move", "copy"]), _POINTERS, _POINTERS).map(
        lambda parts: "JSONPatch{{op: '{}', path: {}, from: {}}}".format(*parts)
    ),
    _POINTERS.map(lambda pointer: f"JSONPatch{{op: 'remove', path: {pointer}}}"),
)
_PATCHES = st.one_of(
    st.lists(_OPERATIONS, min_size=1, max_size=3).map(lambda several: f"[{', '.join(several)}]"),
    _OPERATIONS.map(lambda one: f"['a'].map(i, {one})"),
    _OPERATIONS.map(lambda one: f"[{one}].filter(i, true)"),
    st.tuples(_OPERATIONS, _OPERATIONS).map(lambda pair: f"[{pair[0]}] + [{pair[1]}]"),
)
_APPLIED = st.one_of(
    _LABELS.map(lambda labels: f"Object{{metadata: Object.metadata{{labels: {labels}}}}}"),
    _LABELS.map(lambda labels: f"Object{{metadata: Object.metadata{{?labels: optional.of({labels})}}}}"),
)


@given(st.one_of(_PATCHES, _APPLIED), _KEYS, _POINTERS, _LABELS)
@example("Object{metadata: Object.metadata{labels: {'coreweave.cloud/x': 'y'}}}", "''", "''", "{}")
def test_what_is_written_was_told(expression: str, key: str, pointer: str, labels: str) -> None:
    """A Node whose reserved labels differ afterwards is the work of a policy that was found able to do that."""
    texts = {"key": key.replace("variables.key", "''"), "pointer": pointer, "labels": labels}
    texts["pointer"] = texts["pointer"].replace("variables.pointer", "''")
    texts["labels"] = texts["labels"].replace("variables.labels", "{}")
    kind = "jsonPatch" if "JSONPatch" in expression else "applyConfiguration"
    document = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [_RULE]},
            "variables": [{"name": name, "expression": text} for name, text in texts.items()],
            "mutations": [{kind: {"expression": expression}}],
        },
    }

    if _written(expression, texts):
        assert of_policy(document, _TABLE, ()) is not None


def _written(expression: str, texts: dict[str, str]) -> bool:
    """Whether the reserved labels of the Node are others after the mutation."""
    variables = tuple(
        NamedExpression(name=name, expression=Expression(text=text, path=name)) for name, text in texts.items()
    )
    compiled = mutating(expression, variables=variables, failure_policy="Ignore")
    selected = [(compiled, [_BINDING])]
    after = dispatcher.mutate(lambda _: selected, parameters(), inputs(object=_OBJECT), _SCHEMA).object or {}
    return _reserved(after) != {_KEPT: "x"}


def _reserved(node: dict[str, Any]) -> dict[str, Any]:
    metadata = node.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {key: value for key, value in (labels if isinstance(labels, dict) else {}).items() if is_reserved(key)}
