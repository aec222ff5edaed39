"""Validation of policies, bindings and exceptions, with the API server's messages and hints of our own.

Source: kubernetes' pkg/apis/admissionregistration/validation/validation.go, and for metadata and selectors
k8s.io/apimachinery's pkg/api/validation/objectmeta.go and pkg/apis/meta/v1/validation/validation.go. The checks have
the same order. The input was decoded strictly: values have the right types, and no field is unknown. Expressions are
compiled with the types and messages of k8s.io/apiserver's pkg/admission/plugin/cel/compile.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache, partial

from policies.admissionpolicy.builtin.table import served_resources
from policies.admissionpolicy.documents.document import (
    EXCEPTION_GLOBS,
    Problem,
    Spot,
    Word,
    duplicate,
    invalid,
    required,
    show,
    unsupported,
)
from policies.admissionpolicy.model import DERIVE, OWN_ANNOTATIONS, OWN_PREFIX
from policies.cel.environment import Dialect, Environment
from policies.cel.kubernetes import VARIABLES, admission
from policies.cel.patchtypes import PATCH_TYPES
from policies.cel.program import Composition, InstantiationError, compile_expression
from policies.cel.syntax.source import CompileError, Source
from policies.cel.types import BOOL, NULL, STRING, Type
from policies.celtext import is_identifier
from policies.golang.strconv import quote, trimmed
from policies.kubernetes.name import (
    SERVED_VERSIONS,
    Format,
    dns1035_label,
    dns_subdomain,
    label_key,
    label_value,
    path_segment,
)
from policies.kubernetes.spelling import closest, did_you_mean
from policies.objects.workload import BUILT_IN

PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""The types of patches, and the fields with their expressions."""
_NAME_HINT = "use lower case letters, digits, '-' and '.'"

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_STATIC_SUFFIX = ".static.k8s.io"
_ANNOTATIONS_SIZE = 256 * 1024
_MATCH_CONDITIONS = 64
_VARIABLES = 500  # a limit of our own: with each variable one more environment is kept, which knows all before it
_AUDIT_ANNOTATIONS = 20
_VALUE_EXPRESSION_SIZE = 5 * 1024
_NO_EXPRESSION = "expression is not specified"
_UNNAMED = "name the policy that this binding puts into force"
_RULE_HINT = "name at least one resource rule: operations, apiGroups, apiVersions and resources"
_KIND_HINT = "write the kind of the parameters, as ConfigMap"
_KEY_HINT = "write a label key, as example.org/team"
_VALUE_HINT = "write a label value of at most 63 characters"
_UNTIL_HINT = "write the last day (UTC) on which it holds, as 2026-12-31"
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def validate_policy(top: Spot, dialect: Dialect, *, mutating: bool) -> None:
    """Note every problem of a policy."""
    _metadata(top.child("metadata"), dialect)
    _own_annotations(top.child("metadata", "annotations"))
    spec = top.child("spec")
    _choice(spec.child("failurePolicy"), ("Fail", "Ignore"))
    if spec.child("paramKind").value is not None:
        _param_kind(spec.child("paramKind"))
    constraints = spec.child("matchConstraints")
    if constraints.value is None:
        constraints.fault(required(), _RULE_HINT)
    else:
        _match_resources(constraints)
        _unconverted(constraints)
        _needed(constraints.child("resourceRules"), _RULE_HINT)
        if mutating:
            _no_delete(constraints)
    composed = mutating or bool(spec.child("variables").value)
    expressions = Expressions(dialect, params=spec.child("paramKind").value is not None, composed=composed)
    _match_conditions(spec.child("matchConditions"), expressions)
    _variables(spec.child("variables"), expressions)
    if mutating:
        _mutations(spec.child("mutations"), expressions)
        reinvocation = spec.child("reinvocationPolicy")
        if _needed(reinvocation, "write Never, or IfNeeded to run again after other mutations"):
            _choice(reinvocation, ("IfNeeded", "Never"))
        return

    # A validating policy needs a validation or an audit annotation.
    both = spec.child("validations"), spec.child("auditAnnotations")
    if not any(spot.value or spot.report.hidden(spot.path) for spot in both):
        for spot in both:
            detail = "validations or auditAnnotations must contain at least one item"
            spot.fault(required(detail), "add a validation: an expression that has to be true")
    _validations(both[0], expressions)
    _audit_annotations(both[1], top.child("metadata", "name").value or "", expressions)


def validate_binding(top: Spot, dialect: Dialect, *, mutating: bool) -> None:
    """Note every problem of a binding."""
    _metadata(top.child("metadata"), dialect)
    spec = top.child("spec")
    policy = spec.child("policyName")
    is_declared = dialect.release.validates_declaratively and not mutating
    if policy.value:
        _format(policy, dns_subdomain, "write the policy's metadata.name")
    elif not is_declared:
        _needed(policy, _UNNAMED)
    _param_ref(spec.child("paramRef"))
    _match_resources(spec.child("matchResources"))
    if mutating:
        _no_delete(spec.child("matchResources"))
    if is_declared:
        _needed(policy, _UNNAMED)
    if not mutating:
        _actions(spec.child("validationActions"), dialect)


def validate_exception(top: Spot) -> None:
    """Note all problems of an exception, a kind of the service's own: Kubernetes has messages for fields in general."""
    metadata, spec = top.child("metadata"), top.child("spec")
    if _needed(metadata.child("name"), "name the exception: answers and metrics show it"):
        _format(metadata.child("name"), dns_subdomain, _NAME_HINT)
    if metadata.child("namespace").value:
        metadata.child("namespace").warn("an exception is in no namespace", "write it to spec.match.namespaces")
    policies = spec.child("policies")
    if not policies.value:
        policies.fault(required(), "name the policies or built-in rules that it is an exception from")
    for index, name in enumerate(policies.items()):
        if not name.value:
            name.fault(required(), "write the name of a policy or built-in rule")
        elif name.value in policies.value[:index]:
            name.fault(duplicate(name.value), "name each once")
    _written(spec.child("reason"), "say why, best with a ticket: the audit log shows it")
    if _needed(spec.child("until"), _UNTIL_HINT):
        _until(spec.child("until"))
    for field in EXCEPTION_GLOBS:
        for glob in spec.child("match", field).items():
            if not glob.value:
                glob.fault(required("an empty glob matches nothing"), "write a name, or * for all")
    _kinds(spec.child("match", "kinds"))
    _selector(spec.child("match", "objectSelector"))


def _until(spot: Spot) -> None:
    if not _DATE.fullmatch(spot.value):  # fromisoformat also accepts weeks, and dates without dashes
        spot.fault(invalid(spot.value, "must be a date: YYYY-MM-DD"), _UNTIL_HINT)
        return
    try:
        date.fromisoformat(spot.value)
    except ValueError as error:
        spot.fault(invalid(spot.value, f"is not a calendar date: {error}"), _UNTIL_HINT)


def _kinds(spot: Spot) -> None:
    """Warn of a resource in place of a kind, and of a workload without its group, for that means the core group."""
    resources = {each.name: each.kind for each in served_resources() if "/" not in each.name}
    for below in spot.items():
        kind = below.value
        if (meant := resources.get(kind.partition(".")[0])) is not None:
            hint = f"did you mean {f'{meant.kind}.{meant.group}'.rstrip('.')}?"
            below.warn(f"{kind} is a resource, and no kind: it matches nothing", hint)
        group = next((row.group for row in BUILT_IN if row.kind == kind and row.group in ("apps", "batch")), "")
        if group:
            hint = f"did you mean {kind}.{group}?"
            below.warn(f"there is no {kind} in the core group: it matches nothing", hint)


def _needed(spot: Spot, hint: str) -> bool:
    """Whether a required value is not empty; note it otherwise."""
    if not spot.value:
        spot.fault(required(), hint)
    return bool(spot.value)


def _format(
    spot: Spot, check: Format, hint: str, value: str | None = None, *, path: str | None = None, key: bool = False
) -> None:
    """Note a string, the field's value or another one, that does not have a format."""
    text: str = (spot.value or "") if value is None else value
    for words in check(text):
        spot.fault(invalid(text, words), hint, path=path, key=key)


def _written(spot: Spot, hint: str, detail: str = "") -> bool:
    """Whether a text is more than white space; note it otherwise."""
    is_written = bool(trimmed(spot.value or ""))
    if not is_written:
        spot.fault(required(detail), hint)
    return is_written


def _once(spot: Spot, known: set[str], hint: str) -> None:
    """Note a value that is among those before it, and add it to them."""
    value: str = spot.value or ""
    if value in known:
        spot.fault(duplicate(value), hint)
    known.add(value)


def _selector(spot: Spot) -> None:
    """Validate a label selector, if there is one."""
    _labels(spot.child("matchLabels"))
    for requirement in spot.child("matchExpressions").items():
        operator, values = requirement.child("operator").value or "", requirement.child("values")
        if operator in ("In", "NotIn"):
            if not values.value:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                values.fault(required(detail), "list the values, or use Exists")
        elif operator in ("Exists", "DoesNotExist"):
            if values.value:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                values.fault(f"Forbidden: {detail}", "leave the values out, or use In or NotIn")
        else:
            hint = "write In, NotIn, Exists or DoesNotExist"
            requirement.child("operator").fault(invalid(Word(operator), "not a valid selector operator"), hint)
        _format(requirement.child("key"), label_key, _KEY_HINT)
        for item in values.items():
            _format(item, label_value, _VALUE_HINT)


def _choice(spot: Spot, allowed: Sequence[str]) -> None:
    """Note a value that is not in an enumeration. An absent value is allowed, because it has a default."""
    if spot.value is not None and spot.value not in allowed:
        hint = did_you_mean(spot.value, allowed, f"write {' or '.join(allowed)}")
        spot.fault(unsupported(spot.value, allowed), hint)


def _labels(spot: Spot) -> None:
    """Note invalid labels, or matchLabels of a selector. The API server's messages do not contain the key."""
    path = show(spot.path)
    for key, value in (spot.value or {}).items():
        _format(spot.child(key), label_key, _KEY_HINT, key, path=path, key=True)
        _format(spot.child(key), label_value, _VALUE_HINT, value, path=path)


def _metadata(spot: Spot, dialect: Dialect) -> None:
    name, generated = spot.child("name"), spot.child("generateName")
    if generated.value:
        _format(generated, partial(dns_subdomain, is_prefix=True), _NAME_HINT)
    if not name.value:
        name.fault(required("name or generateName is required"), "a file needs a name of its own")
    else:
        _format(name, dns_subdomain, _NAME_HINT)
    if (name.value or "").endswith(_STATIC_SUFFIX):
        reserved = (
            f'names ending with "{_STATIC_SUFFIX}" are reserved for static manifest-based configurations '
            "and cannot be managed via the API"
        )
        if dialect.release.reserves_static_names and not dialect.stored:
            name.fault(invalid(name.value, reserved), "choose another name")
        else:
            name.warn(reserved, "choose another name")
    if spot.child("namespace").value:
        hint = "a policy is in no namespace: leave it out"
        spot.child("namespace").warn("Forbidden: not allowed on this type", hint)
    _labels(spot.child("labels"))
    annotations: Mapping[str, str] = spot.child("annotations").value or {}
    for key in annotations:
        hint, at = "write an annotation key, as example.org/owner", spot.child("annotations", key)
        _format(at, lambda text: label_key(text.lower()), hint, key, path="metadata.annotations", key=True)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_SIZE:
        message = f"Too long: may not be more than {_ANNOTATIONS_SIZE} bytes"
        spot.child("annotations").fault(message, "keep notes of that length elsewhere")
    for finalizer in spot.child("finalizers").items():
        _format(spot.child("finalizers"), label_key, "leave finalizers out", finalizer.value)


def _own_annotations(spot: Spot) -> None:
    """Warn of unknown annotations with this service's prefix, because a typo would silently have no effect."""
    for key, value in (spot.value or {}).items():
        if not key.startswith(OWN_PREFIX):
            continue
        if key not in OWN_ANNOTATIONS:
            names = [annotation.removeprefix(OWN_PREFIX) for annotation in OWN_ANNOTATIONS]
            meant = closest(key.removeprefix(OWN_PREFIX), names)
            hint = f"did you mean {OWN_PREFIX}{meant}?" if meant else f"there are {', '.join(OWN_ANNOTATIONS)}"
            spot.child(key).warn("unknown annotation", hint, key=True)
        elif key == DERIVE and value not in ("true", "false"):
            spot.child(key).warn(f"{quote(value)} is neither true nor false", 'write "false" to leave templates alone')


def _param_kind(spot: Spot) -> None:
    at, kind = spot.child("apiVersion"), spot.child("kind")
    hint = "write v1 or group/version, as in the parameters themselves"
    if _needed(at, "write it as in the parameters themselves: v1 for ConfigMaps"):
        group, _, version = at.value.rpartition("/") if at.value != "/" else ("", "", "")
        if "/" in group:
            at.fault(invalid(at.value, f"unexpected GroupVersion string: {at.value}"), hint)
        else:
            if group and (problems := dns_subdomain(group)):
                at.fault(invalid(group, ",".join(problems)), hint)
            if not version:
                at.fault(invalid(at.value, "version must be specified"), hint)
            elif problems := dns1035_label(version):
                at.fault(invalid(version, ",".join(problems)), hint)
    if _needed(kind, _KIND_HINT):
        for words in dns1035_label(kind.value.lower()):
            detail = f"may have mixed case, but should otherwise match: {words}"
            kind.fault(invalid(kind.value, detail), _KIND_HINT)


def _match_resources(spot: Spot) -> None:
    _choice(spot.child("matchPolicy"), ("Equivalent", "Exact"))
    for name in ("namespaceSelector", "objectSelector"):
        _selector(spot.child(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in spot.child(name).items():
            _rule(rule)


def _no_delete(spot: Spot) -> None:
    """Refuse the operation DELETE, which has nothing to mutate. The API server's message names no rule."""
    path = show((*spot.path, "resourceRules", "operations"))
    for rule in spot.child("resourceRules").items():
        for operation in rule.child("operations").items():
            if operation.value not in _MUTATING_OPERATIONS:
                hint = "a mutating policy has nothing to do on DELETE: leave it out"
                operation.fault(unsupported(operation.value, _MUTATING_OPERATIONS), hint, path=path)


def _unconverted(spot: Spot) -> None:
    """Warn if a rule omits a version of its group: with Equivalent, objects of that version match nevertheless."""
    if spot.child("matchPolicy").value not in (None, "Equivalent"):
        return
    for rule in spot.child("resourceRules").items():
        named = rule.child("apiVersions").value
        unnamed = [
            f"{group}/{version}" if group else version
            for group in rule.child("apiGroups").value or ()
            for version in SERVED_VERSIONS.get(group, ())
            if named and version not in named and "*" not in named
        ]
        if unnamed:
            message = f"objects of {', '.join(unnamed)} are not converted: expressions see them as they are sent"
            hint = "name that version as well, or write matchPolicy: Exact to leave it out"
            rule.child("apiVersions").warn(message, hint)


def _rule(spot: Spot) -> None:
    names: set[str] = set()
    for name in spot.child("resourceNames").items():
        _format(name, path_segment, "write a name as it stands in metadata.name")
        _once(name, names, "name each object once")
    operations, versions = spot.child("operations"), spot.child("apiVersions")
    _alone(operations, "operations", 'write CREATE, UPDATE, DELETE, CONNECT, or "*" for all')
    for operation in operations.items():
        _choice(operation, _OPERATIONS)
    _alone(spot.child("apiGroups"), "API groups", 'write "" for the core group, "*" for all')
    _alone(versions, "API versions", 'write the versions, as v1, or "*" for all')
    for version in versions.items():
        _needed(version, "write a version, as v1")
    _resources(spot.child("resources"))
    _choice(spot.child("scope"), ("*", "Cluster", "Namespaced"))


def _alone(spot: Spot, what: str, hint: str) -> None:
    """Require at least one item, and no other item beside `*`."""
    if _needed(spot, hint) and len(spot.value) > 1 and "*" in spot.value:
        spot.fault(invalid(spot.value, f"if '*' is present, must not specify other {what}"), "leave the others out")


def _resources(spot: Spot) -> None:
    """Refuse an empty list, and resources beside a pattern that matches them, such as `pods/*`."""
    _needed(spot, 'write plural names in small letters, as pods or deployments/scale, or "*" for all')
    below: set[str] = set()  # resources with a pattern for all their subresources
    everywhere: set[str] = set()  # subresources with a pattern for all resources
    for item in spot.items():
        name, slash, subresource = item.value.partition("/")
        if not item.value:
            item.fault(required(), "write a resource, as pods")
        elif slash:
            patterns = [f"{name}/*"] if name in below else []
            patterns += [f"*/{subresource}"] if subresource in everywhere else []
            for pattern in patterns:
                detail = f"if '{pattern}' is present, must not specify {item.value}"
                item.fault(invalid(item.value, detail), "leave it out: it is among the others")
            below |= {name} if subresource == "*" else set()
            everywhere |= {subresource} if name == "*" else set()
    resources = spot.value or ()
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        spot.fault(invalid(resources, detail), "leave the others out")
    plain = [resource for resource in resources if resource and "/" not in resource]
    if "*" in plain and plain[-1] != "*":  # the API server checks only the last one
        detail = "if '*' is present, must not specify other resources without subresources"
        spot.fault(invalid(resources, detail), "leave the others out")


def _match_conditions(spot: Spot, expressions: Expressions) -> None:
    _limit(spot, _MATCH_CONDITIONS, "join conditions with &&")
    known: set[str] = set()
    for condition in spot.items():
        expression, name = condition.child("expression"), condition.child("name")
        if _written(expression, "write an expression that is true for requests to judge"):
            environment = _without_variables(expressions.plain)
            _check(expression, environment, BOOL, text=trimmed(expression.value))
        if _needed(name, "name the condition: its name stands in errors"):
            _format(name, label_key, "write a name, as exclude-leases")
            _once(name, known, "give each condition a name of its own")


def _limit(spot: Spot, most: int, hint: str) -> bool:
    count = len(spot.value or ())
    if count > most:
        spot.fault(f"Too many: {count}: must have at most {most} items", hint)
    return count > most


def _variables(spot: Spot, expressions: Expressions) -> None:
    known: set[str] = set()
    if _limit(spot, _VARIABLES, "make several policies of it; kube-apiserver would take more"):
        return
    for variable in spot.items():
        expression, at = variable.child("expression"), variable.child("name")
        name = at.value or ""
        if _written(at, "expressions say variables.name", "name is not specified"):
            if not is_identifier(name):
                hint = "use letters, digits and _ only, no digit first, and no word of CEL"
                at.fault(invalid(name, "must be a valid CEL identifier"), hint)
            elif name in known:
                at.warn(duplicate(name), "only the last variable of a name has an effect: rename one")
        known.add(name)
        if _written(expression, "write the expression that the name stands for", _NO_EXPRESSION):
            expressions.variable(name, expression)


def _validations(spot: Spot, expressions: Expressions) -> None:
    for validation in spot.items():
        expression = validation.child("expression")
        if _written(expression, "write an expression that is true for what is allowed", _NO_EXPRESSION):
            expressions.check(expression, BOOL, text=expression.value)
        long, short = validation.child("messageExpression"), validation.child("message")
        if trimmed(long.value or ""):
            _check(long, expressions.silent, STRING, text=long.value)
        elif long.value:
            hint = "write an expression for the message, or leave it out"
            long.fault(invalid(long.value, "must be non-empty if specified"), hint)
        message = trimmed(short.value or "")
        if short.value and not message:
            hint = "write what is wrong and what to do, or leave it out"
            short.fault(invalid(short.value, "must be non-empty if specified"), hint)
        elif any(character in message for character in "\n\r"):
            detail = "must not contain line breaks"
            short.fault(invalid(short.value, detail), "put it on one line: >- folds a YAML text")
        _choice(validation.child("reason"), ("Forbidden", "Invalid", "RequestEntityTooLarge"))


def _audit_annotations(spot: Spot, policy: str, expressions: Expressions) -> None:
    items = spot.value or ()
    if len(items) > _AUDIT_ANNOTATIONS:
        shown = [{"Key": item.get("key", ""), "ValueExpression": item.get("valueExpression", "")} for item in items]
        detail = f"must not have more than {_AUDIT_ANNOTATIONS} auditAnnotations"
        spot.fault(invalid(shown, detail), "put several values into one annotation")
    keys: set[str] = set()
    for item in spot.items():
        at = item.child("key")
        key = at.value or ""
        if not policy:
            at.fault(invalid(key, "requires metadata.name be non-empty"), "name the policy")
        else:
            hint = "write a key without a slash: the policy's name becomes its prefix"
            _format(at, label_key, hint, f"{policy}/{key}")
        expression = item.child("valueExpression")
        hint = "write an expression for the value; null for no annotation"
        if _written(expression, hint, "valueExpression is not specified"):
            if len(trimmed(expression.value).encode()) > _VALUE_EXPRESSION_SIZE:
                detail = f"must not exceed {_VALUE_EXPRESSION_SIZE} bytes in length"
                expression.fault(required(detail), "move parts of it to variables")
            else:
                text = expression.value
                expressions.check(expression, STRING, NULL, text=trimmed(text), shown=text)
        _once(at, keys, "give each annotation a key of its own")


def _mutations(spot: Spot, expressions: Expressions) -> None:
    if not spot.value:
        spot.fault(required("mutations must contain at least one item"), "add a mutation: patchType and its expression")
    for mutation in spot.items():
        at = mutation.child("patchType")
        kind = at.value
        if not _needed(at, "write ApplyConfiguration or JSONPatch"):
            continue
        _choice(at, tuple(PATCHES))
        if kind not in PATCHES:
            continue
        own, other = (mutation.child(name) for name in sorted(PATCHES.values(), key=lambda name: name != PATCHES[kind]))
        expression = own.child("expression")
        if own.value is None:
            own.fault(
                required(f"must be specified when patchType is {kind}"), f"add {PATCHES[kind]} with its expression"
            )
        elif _written(expression, "write the expression of the patch"):
            environment = expressions.composition.for_mutations().environment
            _check(expression, environment, PATCH_TYPES[kind], text=trimmed(expression.value))
        if other.value is not None:
            detail = f"must not be specified when patchType is {kind}"
            other.fault(invalid(f"{{{other.path[-1]}}}", detail), "make a mutation of its own of it", key=True)


def _param_ref(spot: Spot) -> None:
    if spot.value is None:
        return
    name, selector = spot.child("name"), spot.child("selector")
    hint = "a binding takes one object by name, or all that selector selects"
    exclusive = "Forbidden: name and selector are mutually exclusive"
    if name.value:
        _format(name, path_segment, "write the metadata.name of the parameters")
    if name.value and selector.value is not None:
        name.fault(exclusive, hint)
    _selector(selector)
    if name.value and selector.value is not None:
        selector.fault(exclusive, hint, key=True)
    if not name.value and selector.value is None and not spot.report.hidden(selector.path):
        spot.fault(required("one of name or selector must be specified"), hint)
    action = spot.child("parameterNotFoundAction")
    if _needed(action, "write Deny, or Allow to skip the policy without parameters"):
        _choice(action, ("Deny", "Allow"))


def _actions(spot: Spot, dialect: Dialect) -> None:
    known: set[str] = set()
    for action in spot.items():
        _choice(action, ("Audit", "Deny", "Warn"))
        if action.value in known:
            action.fault(duplicate(Word(action.value)), "name each action once")
        known.add(action.value)
    if {"Deny", "Warn"} <= known:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        spot.fault(invalid(spot.value, detail), "keep Deny alone: a refusal shows its message anyway")
    if not known:
        detail = "" if dialect.release.validates_declaratively else "at least one validation action is required"
        spot.fault(required(detail), "write Deny, Warn or Audit")


class Expressions:
    """The compiler of one policy's expressions, which notes each one that does not compile.

    dialect: what the API server knows in them. params: whether the policy has a paramKind. composed: whether
    expressions may read `variables`, because the policy declares some or is a mutating one. plain: without them.
    """

    def __init__(self, dialect: Dialect, *, params: bool, composed: bool) -> None:
        self.plain = admission(params=params, dialect=dialect)
        self._silent = admission(params=params, authorizer_=False, dialect=dialect)
        self._composed = composed
        self.composition = Composition(self.plain)

    def variable(self, name: str, spot: Spot) -> None:
        """Check a variable, of any type, and declare it for all later expressions."""
        declared = self.composition.declare(name, spot.value)
        program = declared.programs[name]
        if name:  # nothing can refer to a variable without a name
            self.composition = declared
        if isinstance(program, CompileError):
            _note(program, spot.value, program, spot)

    def check(self, spot: Spot, *results: Type, text: str, shown: str = "") -> None:
        """Check an expression that may read `variables` if the policy is composed.

        For evaluation they are always there. If the text does not name them, that makes no difference, and what is
        found out about it is found out for evaluation as well.
        """
        environment = self.composition.environment
        if not self._composed:
            if "variables" not in spot.value and _failure(spot.value, environment, *results) is None:
                return
            environment = _without_variables(environment)
        _check(spot, environment, *results, text=text, shown=shown)

    @property
    def silent(self) -> Environment:
        """That of messageExpressions, without the authorizer."""
        fields = self.composition.environment.structs[VARIABLES.name]
        return self._silent.with_fields(VARIABLES.name, fields) if self._composed else _without_variables(self._silent)


@lru_cache(maxsize=16)
def _without_variables(environment: Environment) -> Environment:
    return replace(environment, variables={k: v for k, v in environment.variables.items() if k != "variables"})


def _check(spot: Spot, environment: Environment, *results: Type, text: str, shown: str = "") -> None:
    """Note what is wrong with an expression. text: what the API server compiles, and quotes if nothing is shown."""
    error = _failure(spot.value, environment, *results)
    if error is not None:
        reference = error if text == spot.value else _failure(text, environment, *results) or error
        _note(error, shown or text, reference, spot)


def _failure(text: str, environment: Environment, *results: Type) -> CompileError | None:
    try:
        compile_expression(text, environment, *results)
    except CompileError as error:
        return error
    return None


def _note(error: CompileError, text: str, reference: CompileError, spot: Spot) -> None:
    """Note an error with its places in the file. reference: that of the API server, whose words are the message."""
    if spot.report.hidden(spot.path):
        return
    words = reference.full_reference()
    message = f"Internal error: {words}" if isinstance(reference, InstantiationError) else invalid(text, words)
    document = spot.report.document
    places, blocks = [], []
    for issue in error.issues:
        offset = max(issue.position, 0)  # an issue without a position is at the start
        place = document.place_inside(spot.path, offset)
        places.append(place or Source(error.source.text, "", *document.place(spot.path)).location(offset))
        blocks.append("\n".join((issue.message, *error.source.excerpt(offset))))
    further = [
        f"{document.name}:{line}:{column}: {block}" for (line, column), block in zip(places, blocks, strict=True)
    ]
    spot.report.problems.append(
        Problem(
            file=document.name,
            line=places[0][0],
            column=places[0][1],
            path=show(spot.path),
            message=message,
            hint=next((issue.hint for issue in error.issues if issue.hint), ""),
            excerpt="\n".join([blocks[0], *further[1:]]),
        )
    )
