"""A document as a file reader returns it: a decoded value with the place of each part in the file; and its problems.

A problem has a hint of our own and the message of the API server (pkg/util/validation/field/errors.go of
k8s.io/apimachinery). The fields of each kind are those of k8s.io/api/admissionregistration/{v1,v1beta1,v1alpha1}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import getitem
from typing import Any, Literal

from policies.golang.strconv import quote
from policies.kubernetes.spelling import closest, did_you_mean, json_name, to_json

Path = tuple[str | int, ...]
"""Keys and indexes from the root of a document to a value."""

Place = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object, or a list of objects, from one file.

    name: the file. line: the first line of the document. places: the place of the value at a path, or of its nearest
    existing parent; for a string, the place of its first character, after the quote or on the first line of a block
    (yamltext.py). keys: the place of the key at a path; None if the reader does not know it. inside: the place of the
    character at an offset of the string at a path; None if all lines of a string are as in the file, with the same
    indentation. duplicates: the paths of duplicate keys, if the reader does not reject them itself.
    prefix: the path of the object in what the reader knows the places of.
    """

    value: Any
    name: str
    line: int = 1
    places: Callable[[Path], Place]
    keys: Callable[[Path], Place] | None = None
    inside: Callable[[Path, int], Place] | None = None
    duplicates: Sequence[Path] = ()
    prefix: Path = ()

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of a value, or of its key."""
        places = self.keys if key and self.keys is not None else self.places
        return places((*self.prefix, *path))

    def place_inside(self, path: Path, offset: int) -> Place | None:
        """The place of a character of a string; None if the reader does not know it."""
        return None if self.inside is None else self.inside((*self.prefix, *path), offset)

    def at(self, *steps: str | int) -> Document:
        """A part of the document, such as an item of a List, as a document of its own."""
        return replace(
            self,
            value=reduce(getitem, steps, self.value),
            line=self.place(steps)[0],
            duplicates=tuple(path[len(steps) :] for path in self.duplicates if path[: len(steps)] == steps),
            prefix=(*self.prefix, *steps),
        )

    def outline(self, paths: Iterable[Path]) -> Document:
        """A document with only the places of some paths, which needs much less memory than the tree of a file."""
        places = {path: self.place(path) for path in paths}
        keys = {path: self.place(path, key=True) for path in places}
        return Document(
            value=None,
            name=self.name,
            line=self.line,
            places=partial(_place, places, (self.line, 1)),
            keys=partial(_place, keys, (self.line, 1)),
        )


def _place(places: Mapping[Path, Place], other: Place, path: Path) -> Place:
    return places.get(path, other)


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of one document.

    path: the field as the API server names it, empty for the whole document. message: the API server's message about
    that field. excerpt: for an expression, each issue with its line and a caret; it replaces the message. An error
    makes the document unusable, a warning does not.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    excerpt: str = ""
    severity: Severity = "error"

    @property
    def text(self) -> str:
        """`spec.failurePolicy: Unsupported value: "Foo": ...`, as the API server prints it."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def __str__(self) -> str:
        kind = "" if self.severity == "error" else f"{self.severity}: "
        what = f"{self.path}: {self.excerpt}" if self.excerpt else self.text
        text = f"{self.file}:{self.line}:{self.column}: {kind}{what}"
        return f"{text}\nhint: {self.hint}" if self.hint else text


class Report:
    """Collects the problems of one document in the order in which they are found."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.unread: set[Path] = set()  # of these values nothing more is noted: it would only be a consequence

    @property
    def failed(self) -> bool:
        """Whether any of the problems is an error."""
        return any(problem.severity == "error" for problem in self.problems)

    def hidden(self, path: Path) -> bool:
        """Whether a value, or one that contains it, could not be decoded."""
        return any(path[:length] in self.unread for length in range(1, len(path) + 1))

    def continued(self, document: Document | None = None) -> Report:
        """A new report, of an outline of the document, if given, that begins with the problems so far."""
        other = Report(document or self.document)
        other.problems, other.unread = list(self.problems), self.unread
        return other


@dataclass(frozen=True, slots=True)
class Spot:
    """A field of a document, at which problems are noted. value: decoded; None for a field that is absent."""

    report: Report
    path: Path = ()
    value: Any = None

    def child(self, *steps: str | int) -> Spot:
        """A field below it."""
        value = self.value
        for step in steps:
            try:
                value = value[step]
            except (LookupError, TypeError):
                value = None
        return Spot(self.report, (*self.path, *steps), value)

    def items(self) -> Iterator[Spot]:
        """The items of a list; none if it is absent."""
        return (self.child(index) for index in range(len(self.value or ())))

    def fault(
        self, message: str, hint: str = "", *, path: str | None = None, key: bool = False, severity: Severity = "error"
    ) -> None:
        """Note a problem with the field. `path`: if the API server's message names another field."""
        if self.report.hidden(self.path):
            return
        line, column = self.report.document.place(self.path, key=key)
        self.report.problems.append(
            Problem(
                file=self.report.document.name,
                line=line,
                column=column,
                path=show(self.path) if path is None else path,
                message=message,
                hint=hint,
                severity=severity,
            )
        )

    def warn(self, message: str, hint: str = "", *, key: bool = False) -> None:
        """Note something that is valid, but probably not intended."""
        self.fault(message, hint, key=key, severity="warning")


def show(path: Path) -> str:
    """A path as the API server's messages write it: `spec.validations[0].message`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Word(str):
    """A value of an enumeration of the API. Messages print it as JSON, but other strings as in Go."""

    __slots__ = ()


def required(detail: str = "") -> str:
    """The message for a value that is missing or empty."""
    return f"Required value: {detail}" if detail else "Required value"


def invalid(value: Any, detail: str) -> str:
    """The message for a value of the right type that is not valid."""
    return f"Invalid value: {_shown(value)}: {detail}" if detail else f"Invalid value: {_shown(value)}"


def duplicate(value: Any) -> str:
    """The message for a value that occurs twice."""
    return f"Duplicate value: {_shown(value)}"


def not_found(value: str) -> str:
    """The message for the name of something that does not exist."""
    return f"Not found: {_shown(value)}"


def unsupported(value: str, allowed: Sequence[str]) -> str:
    """The message for a value that is not in an enumeration."""
    return f"Unsupported value: {_shown(Word(value))}: supported values: {', '.join(map(quote, allowed))}"


def _shown(value: Any) -> str:
    return quote(value) if isinstance(value, str) and not isinstance(value, Word) else to_json(value)


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a field.

    json: the type of its JSON; empty for one that the service does not use. item: of a list, or of the values of a map
    with any keys. fields: of a map with known keys.
    """

    json: Literal["string", "number", "array", "object", ""]
    item: Shape | None = None
    fields: Mapping[str, Shape] | None = None


_EXPECTED = {"string": "a text, in quotes", "number": "a whole number", "array": "a list", "object": "a map of fields"}
_TYPES: Mapping[str, Any] = {"string": str, "number": int, "array": list, "object": dict}
_NOTHING = object()


def _struct(**fields: Shape) -> Shape:
    return Shape("object", fields=fields)


_TEXT, _NUMBER, _ANY = Shape("string"), Shape("number"), Shape("")
_TEXTS = Shape("object", _TEXT)
_STRINGS = Shape("array", _TEXT)
_SELECTOR = _struct(
    matchLabels=_TEXTS, matchExpressions=Shape("array", _struct(key=_TEXT, operator=_TEXT, values=_STRINGS))
)
_METADATA = _struct(
    **dict.fromkeys(("name", "generateName", "namespace"), _TEXT),
    **dict.fromkeys(("labels", "annotations"), _TEXTS),
    finalizers=_STRINGS,
    generation=_NUMBER,
    selfLink=_TEXT,
    uid=_TEXT,
    resourceVersion=_TEXT,
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _ANY),
    deletionGracePeriodSeconds=_NUMBER,
    **dict.fromkeys(("ownerReferences", "managedFields"), _ANY),
)
_RULES = Shape(
    "array",
    _struct(
        resourceNames=_STRINGS,
        operations=_STRINGS,
        apiGroups=_STRINGS,
        apiVersions=_STRINGS,
        resources=_STRINGS,
        scope=_TEXT,
    ),
)
_MATCH = _struct(
    namespaceSelector=_SELECTOR,
    objectSelector=_SELECTOR,
    resourceRules=_RULES,
    excludeResourceRules=_RULES,
    matchPolicy=_TEXT,
)
_POLICY: Mapping[str, Shape] = {
    "paramKind": _struct(apiVersion=_TEXT, kind=_TEXT),
    "matchConstraints": _MATCH,
    "matchConditions": Shape("array", _struct(name=_TEXT, expression=_TEXT)),
    "variables": Shape("array", _struct(name=_TEXT, expression=_TEXT)),
    "failurePolicy": _TEXT,
}
_VALIDATING: Mapping[str, Shape] = {
    **_POLICY,
    "validations": Shape("array", _struct(expression=_TEXT, message=_TEXT, reason=_TEXT, messageExpression=_TEXT)),
    "auditAnnotations": Shape("array", _struct(key=_TEXT, valueExpression=_TEXT)),
}
_MUTATING: Mapping[str, Shape] = {
    **_POLICY,
    "mutations": Shape(
        "array",
        _struct(patchType=_TEXT, applyConfiguration=_struct(expression=_TEXT), jsonPatch=_struct(expression=_TEXT)),
    ),
    "reinvocationPolicy": _TEXT,
}
_BINDING: Mapping[str, Shape] = {
    "policyName": _TEXT,
    "paramRef": _struct(name=_TEXT, namespace=_TEXT, selector=_SELECTOR, parameterNotFoundAction=_TEXT),
    "matchResources": _MATCH,
}
_ACTIONS: Mapping[str, Shape] = {"validationActions": _STRINGS}
EXCEPTION_GLOBS = ("namespaces", "kinds", "names", "users", "groups")


def _kind(spec: Mapping[str, Shape], **more: Shape) -> Shape:
    return _struct(apiVersion=_TEXT, kind=_TEXT, metadata=_METADATA, spec=_struct(**spec), **more)


KINDS: Mapping[str, Shape] = {
    "ValidatingAdmissionPolicy": _kind(_VALIDATING, status=_ANY),
    "ValidatingAdmissionPolicyBinding": _kind({**_BINDING, **_ACTIONS}),
    "MutatingAdmissionPolicy": _kind(_MUTATING),
    "MutatingAdmissionPolicyBinding": _kind(_BINDING),
}

EXCEPTION = _kind(
    {
        "policies": _STRINGS,
        "reason": _TEXT,
        "until": _TEXT,
        "match": _struct(**dict.fromkeys(EXCEPTION_GLOBS, _STRINGS), objectSelector=_SELECTOR),
    }
)
"""The service's own kind, which is decoded just as strictly."""


def decode(value: Any, kind: Shape, spot: Spot) -> dict[str, Any]:
    """The object without unknown fields, values of other types, and nulls. All except nulls are noted as problems.

    Decoding follows the API server's `fieldValidation=Strict`: names are case-sensitive, null means absent, an unknown
    field or a value of another type is an error. Unlike the API server, it finds all errors at once.
    """
    decoded = _decoded(value, kind, spot)
    return decoded if isinstance(decoded, dict) else {}


def _decoded(value: Any, shape: Shape, spot: Spot) -> Any:
    """A value decoded by its shape. One that cannot be decoded is hidden from all later checks."""
    if not shape.json:
        return value
    if not isinstance(value, _TYPES[shape.json]) or isinstance(value, bool):
        expected = _EXPECTED[shape.json]
        if shape is _TEXTS:
            expected = "a map of texts"
        elif shape.json == "string" and isinstance(value, list | dict):
            expected = "a text"
        spot.fault(f"expected {shape.json}, got {json_name(value)}", f"write {expected} here")
        spot.report.unread.add(spot.path)
        return _NOTHING
    if shape.fields is not None:
        return _fields(value, shape.fields, spot)
    if shape.item is None:
        return value
    if shape.json == "array":
        # An item that is null or cannot be decoded becomes empty, as in Go.
        empty, items = _TYPES[shape.item.json](), []
        for index, item in enumerate(value):
            decoded = _NOTHING if item is None else _decoded(item, shape.item, spot.child(index))
            items.append(empty if decoded is _NOTHING else decoded)
        return items
    texts = {key: "" if item is None else _decoded(item, shape.item, spot.child(key)) for key, item in value.items()}
    return {key: text for key, text in texts.items() if text is not _NOTHING}


def _fields(value: Mapping[str, Any], known: Mapping[str, Shape], spot: Spot) -> dict[str, Any]:
    fields = {}
    for name, item in value.items():
        below = spot.child(name)
        if name not in known:
            hint = did_you_mean(name, known, f"the fields here are {', '.join(known)}")
            below.fault(f"unknown field {quote(show(below.path))}", hint, key=True)
            meant = closest(name, known)
            if meant and meant not in value:
                spot.report.unread.add((*spot.path, meant))
        elif item is not None:
            decoded = _decoded(item, known[name], below)
            if decoded is not _NOTHING:
                fields[name] = decoded
    return fields
