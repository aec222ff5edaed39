"""Type checking of a policy's expressions, as in `status.typeChecking` of a ValidatingAdmissionPolicy.

Kubernetes checks validations and their messageExpressions; `object`, `oldObject` and `params` have the types from the
schemas. This module can also check the other expressions of a policy. Sources, in k8s.io/apiserver:
pkg/admission/plugin/policy/validating/typechecking.go, pkg/cel/common/schemas.go (SchemaDeclType), pkg/cel/types.go
(names of types), pkg/cel/escaping.go (names of fields), pkg/cel/openapi/resolver/refs.go (references in circles).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import Any

from policies.admissionpolicy import schema as schemas
from policies.admissionpolicy.builtin.table import QUANTITY, ApiResource, OpenApi, Scope, served_resources
from policies.admissionpolicy.model import Expression, Policy
from policies.admissionpolicy.schema import open_api
from policies.cel import types
from policies.cel.checker import check, qualified_name
from policies.cel.environment import Dialect, Feature
from policies.cel.kubernetes import VARIABLES, admission, variable_type
from policies.cel.recursion import deeply
from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Literal, Node, Select, children, walk
from policies.cel.syntax.parser import RESERVED, parse
from policies.cel.syntax.source import CompileError
from policies.cel.types import Kind, Type
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import NEWEST, Release


@dataclass(frozen=True, slots=True)
class ResourceCatalog:
    """resources: all known resources. custom: the schemas of custom resources. release: the one that has them."""

    resources: tuple[ApiResource, ...]
    custom: Mapping[GroupVersionKind, OpenApi]
    release: Release = NEWEST

    def open_api(self, kind: GroupVersionKind) -> OpenApi | None:
        """The schema of a kind; None if it is unknown."""
        return open_api(kind, self.release) or self.custom.get(kind)


def catalog(objects: Iterable[Any], release: Release = NEWEST) -> ResourceCatalog:
    """The built-in resources of a release, and those of the CustomResourceDefinitions among the objects."""
    own: list[ApiResource] = []
    custom: dict[GroupVersionKind, OpenApi] = {}
    for item in objects:
        if not isinstance(item, dict) or item.get("kind") != "CustomResourceDefinition":
            continue
        spec = item.get("spec") or {}
        names = spec.get("names") or {}
        group, plural = str(spec.get("group", "")), str(names.get("plural", ""))
        scope: Scope = "Cluster" if spec.get("scope") == "Cluster" else "Namespaced"
        for entry in spec.get("versions") or ():
            version = str(entry.get("name", ""))
            kind = GroupVersionKind(group, version, str(names.get("kind", "")))
            subresources = (f"{plural}/{name}" for name in entry.get("subresources") or ())
            own += (ApiResource(group, version, name, kind, scope) for name in (plural, *subresources))
            if written := (entry.get("schema") or {}).get("openAPIV3Schema"):
                custom[kind] = schemas.open_api_of_custom_resource(written)
    return ResourceCatalog((*served_resources(), *own), custom, release)


_RESERVED = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SCALARS = {"boolean": types.BOOL, "number": types.DOUBLE, "integer": types.INT}
_FORMATS = {"byte": types.BYTES, "duration": types.DURATION, "date": types.TIMESTAMP, "date-time": types.TIMESTAMP}
_TEXT: OpenApi = {"type": "string"}
QUANTITY_TYPE = Type(Kind.DYN, "quantity")
"""The type of quantities where Kubernetes has none: the checker leaves it to run time, and lint knows it again."""
_ROOT: OpenApi = {
    "kind": _TEXT,
    "apiVersion": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


@dataclass(slots=True)
class DeclaredType:
    """The type of a kind, and all object types below it by name.

    untyped: as of `declare`. definitions: the names of the OpenAPI definitions of types, if they have one. present: for
    each type, the fields that are always present, because the schema requires them or has a default.
    """

    type: Type
    untyped: Type | None
    structs: dict[str, dict[str, Type]] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    present: dict[str, frozenset[str]] = field(default_factory=dict)

    def read(  # noqa: PLR0911 - one return per form
        self, schema: OpenApi, path: str, around: frozenset[str], *, root: bool = False
    ) -> Type | None:
        """The type at a path; None if it has none, so that the field does not exist in CEL.

        around: the enclosing definitions. A reference to one of them becomes an object without fields.
        """
        reference = schema.get("$ref")
        if reference == QUANTITY and self.untyped is not None:
            return QUANTITY_TYPE
        if reference in around:
            schema = {"type": "object"}
        elif reference is not None:
            around |= {reference}
            schema = schemas.definition(reference)
            path = path if self.untyped is None or root else reference
            self.definitions[path] = reference
        if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string") is True:
            return types.DYN
        match "object" if root else schema.get("type"):
            case "array":
                element = self._below(schema.get("items"), f"{path}.@idx", around)
                return None if element is None else types.list_of(element)
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                element = self._below(schema["additionalProperties"], f"{path}.@elem", around)
                return None if element is None else types.map_of(types.STRING, element)
            case "object":
                unknown = not schema.get("properties") or schema.get("x-kubernetes-preserve-unknown-fields") is True
                is_open = unknown and not root and self.untyped is not None
                return self.untyped if is_open else self._struct(schema, path, around, root=root)
            case "string":
                return _FORMATS.get(schema.get("format", ""), types.STRING)
            case name:
                return _SCALARS.get(str(name), self.untyped)

    def _below(self, schema: Any, path: str, around: frozenset[str]) -> Type | None:
        if not isinstance(schema, dict):
            return self.untyped
        return self.read(schema, path, around, root=schema.get("x-kubernetes-embedded-resource") is True)

    def _struct(self, schema: OpenApi, path: str, around: frozenset[str], *, root: bool) -> Type:
        properties = schema.get("properties") or {}
        if root and "metadata" not in properties:
            properties = {**properties, **_ROOT}
        fields: dict[str, Type] = {}
        present = set(schema.get("required") or ())
        for name, below in properties.items():
            identifier = escaped(name)
            type_ = None if identifier is None else self._below(below, f"{path}.{identifier}", around)
            if identifier is None or type_ is None:
                continue
            fields[identifier] = type_
            if name in _RESERVED:  # a keyword may also be used unescaped
                fields[name] = type_
            if below.get("default") is not None:
                present.add(name)
        self.structs[path] = fields
        self.present[path] = frozenset(present)
        return types.struct(path)


def declare(name: str, schema: OpenApi, untyped: Type | None = None) -> DeclaredType | None:
    """The type `name` of a whole object; None if the schema has no type for it.

    untyped: the type for values that may have several types, but for quantities, and for objects with unknown fields.
    None: as in Kubernetes, where fields with several types do not exist, and objects with unknown fields are empty.
    With `untyped`, types are named after their definitions, so that containers and initContainers have the same element
    type; in Kubernetes they differ.
    """
    declared = DeclaredType(types.DYN, untyped)
    type_ = declared.read(schema, name, frozenset(), root=True)
    declared.type = type_ or types.DYN
    return None if type_ is None else declared


def escaped(name: str) -> str | None:
    """A property's name as a CEL identifier, such as `x__dash__y` for `x-y`; None if it cannot be one."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


_MOST_KINDS = 10  # Kubernetes collects at most so many from one rule, and then ignores further rules


def warnings(policy: Policy, catalog: ResourceCatalog) -> list[dict[str, str]]:
    """The `status.typeChecking.expressionWarnings` that Kubernetes writes for a ValidatingAdmissionPolicy."""
    entries = []
    typed = [TypedPolicy(policy, kind, catalog, exact=True) for kind in checked_kinds(policy, catalog)]
    for expression in policy.judged_expressions:
        text = ""
        for kind, error in ((one.kind, one.errors(expression)) for one in typed):
            if kind is not None and error is not None:
                issues = error.full_reference().removeprefix("compilation failed: ")
                text += f"{kind.group}/{kind.version}, Kind={kind.kind}: {issues}\n\n"
        if text:
            entries.append({"fieldRef": expression.path, "warning": text.removesuffix("\n")})
    return entries


def checked_kinds(policy: Policy, catalog: ResourceCatalog) -> tuple[GroupVersionKind, ...]:
    """The kinds for which a policy is checked, in Kubernetes' order: those of rules without wildcards.

    As in a RESTMapper, the name of a resource may be singular, and an empty group matches any. Source: ResourcesFor in
    k8s.io/apimachinery's pkg/api/meta/restmapper.go.
    """
    collected: list[GroupVersionKind] = []
    for rule in policy.match_constraints.resource_rules:
        if any("*" in name for name in (*rule.api_groups, *rule.api_versions)):
            continue
        plain = sorted(name for name in rule.resources if "*" not in name and "/" not in name)  # no subresources
        kinds = [
            resource.kind
            for group, version, name in product(sorted(rule.api_groups), sorted(rule.api_versions), plain)
            for resource in catalog.resources
            if resource.version == version
            and group in ("", resource.group)
            and name.lower() in (resource.name, resource.kind.kind.lower())
            and "/" not in resource.name
        ]
        collected += kinds[:_MOST_KINDS]
        if len(kinds) >= _MOST_KINDS:
            break
    known = (kind for kind in dict.fromkeys(collected) if catalog.open_api(kind) is not None)
    return tuple(sorted(known, key=lambda kind: (kind.group, kind.version, kind.kind)))


_UNKNOWN = object()


class KindTests:
    """Evaluates tests of the kind.

    variables: the trees of `variables.x` by name. fields: the results of `has()`, by its position, for fields that the
    kind does not have or always has.
    """

    def __init__(
        self, kind: GroupVersionKind | None, variables: Mapping[str, Node], fields: Mapping[int, bool]
    ) -> None:
        self._values: dict[str, str] = {}
        if kind is not None:
            about = {"kind": kind.kind, "apiVersion": f"{kind.group}/{kind.version}".lstrip("/")}
            roots = {"object": about, "oldObject": about, "request.kind": {"kind": kind.kind, "group": kind.group}}
            self._values = {f"{root}.{name}": text for root, own in roots.items() for name, text in own.items()}
        self._variables = variables
        self._fields = fields
        self._decided: dict[str, bool | None] = {}  # of variables, which may read others again and again

    def decided(self, node: Node, scope: Mapping[str, object] = MappingProxyType({})) -> bool | None:  # noqa: PLR0911
        """The value of an expression that is the same for every object of the kind; None for other expressions."""
        value = self._value(node, scope)
        if value is not _UNKNOWN:
            return value if isinstance(value, bool) else None
        match node:
            case Call(function="!_"):
                inner = self.decided(node.args[0], scope)
                return None if inner is None else not inner
            case Call(function="_&&_" | "_||_"):
                return _joined([self.decided(argument, scope) for argument in node.args], all_=node.function == "_&&_")
            case Call(function="_?_:_"):
                condition = self.decided(node.args[0], scope)
                return None if condition is None else self.decided(node.args[1 if condition else 2], scope)
            case Call(function="_==_" | "_!=_"):
                left, right = (self._value(argument, scope) for argument in node.args)
                return None if _UNKNOWN in (left, right) else (left == right) is (node.function == "_==_")
            case Call(function="@in", args=[item, ListLiteral(elements=elements)]):
                value, among = self._value(item, scope), [self._value(element, scope) for element in elements]
                return None if _UNKNOWN in (value, *among) else value in among
            case Comprehension(macro="all" | "exists", variable2=None, range=ListLiteral(elements=elements)):
                scopes = ({**scope, node.variable: self._value(element, scope)} for element in elements)
                return _joined([self.decided(node.body[-1], inner) for inner in scopes], all_=node.macro == "all")
            case _:
                return None

    def live(self, node: Node) -> tuple[Node, ...]:
        """The children of a node that are not dead for the kind."""
        match node:
            case Call(function="_&&_" | "_||_"):
                decisive = node.function == "_||_"
                left, right = node.args
                if self.decided(left) is decisive:
                    return (left,)
                return (right,) if self.decided(right) is decisive else (left, right)
            case Call(function="_?_:_"):
                condition, then, otherwise = node.args
                decided = self.decided(condition)
                return (condition, then, otherwise) if decided is None else (condition, then if decided else otherwise)
            case _:
                return tuple(children(node))

    def walk(self, tree: Node) -> Iterator[Node]:
        """All nodes of a tree that are not dead for the kind."""
        pending = [tree]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(self.live(node)))

    def _value(self, node: Node, scope: Mapping[str, object]) -> object:  # noqa: PLR0911 - one for each form of node
        match node:
            case Literal():
                return node.value
            case Ident():
                return scope.get(node.name, _UNKNOWN)
            case Select(test_only=True):
                return self._fields.get(node.position, _UNKNOWN)
            case Select():
                name = qualified_name(node) or ""
                if name.partition(".")[0] in scope:
                    return _UNKNOWN
                variable = self._variables.get(node.field) if name == f"variables.{node.field}" else None
                if variable is None:
                    return self._values.get(name, _UNKNOWN)
                if node.field not in self._decided:
                    self._decided[node.field] = self.decided(variable)
                decided = self._decided[node.field]
                return _UNKNOWN if decided is None else decided
            case _:
                return _UNKNOWN


def _joined(answers: list[bool | None], *, all_: bool) -> bool | None:
    """The combined result: for `&&` and `all` one False decides, for `||` and `exists` one True."""
    if (not all_) in answers:
        return not all_
    return None if None in answers else all_


class TypedPolicy:
    """A policy for objects of one kind; `kind` is None if it is unknown.

    exact: check as Kubernetes does. It does not know fields with several types (quantities), fields of objects with
    unknown fields, and `authorizer.requestResource`, and it checks expressions behind a test for another kind.
    Otherwise the former are dyn, and the latter are not checked. deep: variables keep object types; otherwise these
    become dyn.
    """

    def __init__(
        self,
        policy: Policy,
        kind: GroupVersionKind | None,
        catalog: ResourceCatalog,
        *,
        exact: bool = False,
        deep: bool = False,
    ) -> None:
        self.kind = kind
        self._exact = exact
        untyped = None if exact else types.DYN
        self.object = None if kind is None else _declared(kind, catalog, untyped)
        self.params = None
        if (parameters := policy.param_kind) is not None:
            group, _, version = parameters.api_version.rpartition("/")
            self.params = _declared(GroupVersionKind(group, version, parameters.kind), catalog, untyped)
        # The environment of buildEnvSet, which has `authorizer`, but not `authorizer.requestResource`.
        known = admission(params=parameters is not None, dialect=Dialect(catalog.release, stored=True))
        hidden = "authorizer.requestResource" if exact else ""
        variables = {name: type_ for name, type_ in known.variables.items() if name != hidden}
        structs = dict(known.structs)
        for names, declared in ((("object", "oldObject"), self.object), (("params",), self.params)):
            if declared is not None and names[0] in variables:
                variables |= dict.fromkeys(names, declared.type)
                structs |= declared.structs
        self._environment = replace(known, variables=variables, structs=structs)
        self._mutations = {mutation.expression for mutation in policy.mutations}
        self._trees: dict[Expression, Node | CompileError] = {}
        self.variables: dict[str, Node | CompileError] = {}
        fields: dict[str, Type] = {}
        for variable in policy.variables:
            tree = self.tree(variable.expression)
            self.variables[variable.name] = tree
            type_ = None if isinstance(tree, CompileError) else tree.type
            type_ = types.DYN if type_ is None or type_ == types.ERROR else type_
            fields = {**fields, variable.name: type_ if deep else variable_type(type_)}
            self._environment = self._environment.with_fields(VARIABLES.name, fields)

    def errors(self, expression: Expression) -> CompileError | None:
        """The type errors of one of its expressions; None if there are none."""
        tree = self.tree(expression)
        return tree if isinstance(tree, CompileError) and self.kind is not None else None

    def tree(self, expression: Expression) -> Node | CompileError:
        """The typed tree of one of its expressions, or its compile error."""
        if expression not in self._trees:
            self._trees[expression] = self._checked(expression)
        return self._trees[expression]

    def _checked(self, expression: Expression) -> Node | CompileError:
        environment = self._environment
        if expression in self._mutations:
            known = admission(params="params" in environment.variables, patch_types=True, dialect=environment.dialect)
            names = known.type_names
            environment = replace(environment, patch_types=True, functions=known.functions, type_names=names)
        source = expression.source
        trees: list[Node] = []

        def checked() -> None:
            trees[:] = [parse(source, quoted=environment.dialect.has(Feature.QUOTED_FIELDS))]
            check(trees[0], source, environment)

        try:
            deeply(checked)
        except CompileError as error:
            if self._exact or not trees:
                return error
            # What is behind a test for another kind does not count, nor what is a consequence of another issue.
            present = self.object.present if self.object is not None else {}
            fields = {
                node.position: True
                for node in walk(trees[0])
                if isinstance(node, Select) and node.test_only and node.operand.type is not None
                and node.field in present.get(node.operand.type.name, ())
            }  # fmt: skip
            fields |= {issue.position: False for issue in error.issues if issue.message.startswith("undefined field")}
            live = {node.position for node in self.tests(fields).walk(trees[0])}
            issues = [issue for issue in error.issues if issue.position in live and not self._works(issue.message)]
            if issues:
                return CompileError(source, issues)
        return trees[0]

    def _works(self, message: str) -> bool:
        """Whether an issue is only a consequence of another one, or only the checker has it.

        At run time, objects are maps, and equality and lists accept any types.
        """
        lenient = re.match(r"found no matching overload for '(_\+_|_\?_:_|@in|_\[_\]|_\[\?_\]|_==_|_!=_)'", message)
        structs = [name for declared in (self.object, self.params) if declared is not None for name in declared.structs]
        mixed = lenient or message.startswith(("expected type", "expression of type"))
        return "!error!" in message or (bool(mixed) and any(name in message for name in structs))

    def live_positions(self, expression: Expression) -> frozenset[int]:
        """The offsets of the nodes that are not behind a test for another kind."""
        return frozenset(node.position for node in self.tests().walk(parse(expression.source)))

    def tests(self, fields: Mapping[int, bool] | None = None) -> KindTests:
        """The tests of the kind; `fields`: the known results of `has()`, by position."""
        trees = {name: tree for name, tree in self.variables.items() if not isinstance(tree, CompileError)}
        return KindTests(self.kind, trees, fields or {})


def _declared(kind: GroupVersionKind, catalog: ResourceCatalog, untyped: Type | None) -> DeclaredType | None:
    custom = catalog.custom.get(kind)
    return _built_in(kind, untyped, catalog.release) if custom is None else declare(kind.kind, custom, untyped)


@cache
def _built_in(kind: GroupVersionKind, untyped: Type | None, release: Release) -> DeclaredType | None:
    schema = open_api(kind, release)
    return None if schema is None else declare(kind.kind, schema, untyped)
