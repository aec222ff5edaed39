"""Validation of policies and bindings, with the API server's messages and hints of our own.

Source: kubernetes' pkg/apis/admissionregistration/validation/validation.go, and for metadata and selectors
k8s.io/apimachinery's pkg/api/validation/objectmeta.go and pkg/apis/meta/v1/validation/validation.go. The checks have
the same order. The input was decoded strictly: values have the right types, and no field is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policies.admissionpolicy.documents.document import (
    Spot,
    Word,
    duplicate,
    forbidden,
    invalid,
    required,
    show,
    too_long,
    too_many,
    unsupported,
)
from policies.admissionpolicy.documents.expression import Expressions
from policies.admissionpolicy.model import DERIVE, OWN_ANNOTATIONS, OWN_PREFIX
from policies.cel.dialect import Dialect
from policies.celtext import is_identifier
from policies.golang.quote import trimmed
from policies.golang.strconv import quote
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

Values = Mapping[str, Any]
NAME_HINT = "use lower case letters, digits, '-' and '.'"


def check_needed(value: Values, name: str, spot: Spot, hint: str) -> bool:
    """Whether a required string is not empty; note it otherwise."""
    if value.get(name):
        return True
    spot.child(name).fault(required(), hint)
    return False


def check_choice(value: Values, name: str, allowed: Sequence[str], spot: Spot) -> None:
    """Note a value that is not in an enumeration. An absent value is allowed, because it has a default."""
    if name in value:
        check_word(value[name], allowed, spot.child(name))


def check_word(word: str, allowed: Sequence[str], spot: Spot) -> None:
    """Note a word that is not in an enumeration."""
    if word not in allowed:
        hint = did_you_mean(word, allowed, f"write {' or '.join(allowed)}")
        spot.fault(unsupported(word, allowed), hint)


def check_format(text: str, check: Format, spot: Spot, hint: str) -> None:
    """Note a string that does not have a format."""
    for words in check(text):
        spot.fault(invalid(text, words), hint)


def check_labels(labels: Mapping[str, str], spot: Spot) -> None:
    """Note invalid labels, or matchLabels of a selector. The API server's messages do not contain the key."""
    path = show(spot.path)
    for key, value in labels.items():
        for words in label_key(key):
            spot.child(key).fault(invalid(key, words), "write a label key, as example.org/team", path=path, key=True)
        for words in label_value(value):
            spot.child(key).fault(invalid(value, words), "write a label value of at most 63 characters", path=path)


MATCH_POLICIES = ("Equivalent", "Exact")
SCOPES = ("*", "Cluster", "Namespaced")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")


def no_delete(value: Values, spot: Spot) -> None:
    """Refuse the operation DELETE, which has nothing to mutate. The API server's message names no rule."""
    path = show((*spot.path, "resourceRules", "operations"))
    for index, rule in enumerate(value.get("resourceRules", ())):
        for number, operation in enumerate(rule.get("operations", ())):
            if operation not in MUTATING_OPERATIONS:
                place = spot.child("resourceRules", index, "operations", number)
                hint = "a mutating policy has nothing to do on DELETE: leave it out"
                place.fault(unsupported(operation, MUTATING_OPERATIONS), hint, path=path)


def unconverted(value: Values, spot: Spot) -> None:
    """Warn if a rule omits a version of its group: with Equivalent, objects of that version match nevertheless.

    kube-apiserver would convert them to the version in the rule, if it serves that version.
    """
    if value.get("matchPolicy", "Equivalent") != "Equivalent":
        return
    for index, rule in enumerate(value.get("resourceRules", ())):
        named = rule.get("apiVersions", ())
        unnamed = [
            f"{group}/{version}" if group else version
            for group in rule.get("apiGroups", ())
            for version in SERVED_VERSIONS.get(group, ())
            if named and version not in named and "*" not in named
        ]
        if unnamed:
            message = f"objects of {', '.join(unnamed)} are not converted: expressions see them as they are sent"
            hint = "name that version as well, or write matchPolicy: Exact to leave it out"
            spot.child("resourceRules", index, "apiVersions").warn(message, hint)


def match_resources(value: Values, spot: Spot) -> None:
    """Validate matchConstraints or matchResources."""
    check_choice(value, "matchPolicy", MATCH_POLICIES, spot)
    for name in ("namespaceSelector", "objectSelector"):
        selector(value.get(name, {}), spot.child(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(value.get(name, ())):
            _rule(rule, spot.child(name, index))


def selector(value: Values, spot: Spot) -> None:
    """Validate a label selector."""
    check_labels(value.get("matchLabels", {}), spot.child("matchLabels"))
    for index, requirement in enumerate(value.get("matchExpressions", ())):
        _requirement(requirement, spot.child("matchExpressions", index))


def _requirement(value: Values, spot: Spot) -> None:
    operator, values = value.get("operator", ""), value.get("values", ())
    below = spot.child("values")
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            below.fault(required(detail), "list the values, or use Exists")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            below.fault(forbidden(detail), "leave the values out, or use In or NotIn")
    else:
        hint = "write In, NotIn, Exists or DoesNotExist"
        spot.child("operator").fault(invalid(Word(operator), "not a valid selector operator"), hint)
    check_format(value.get("key", ""), label_key, spot.child("key"), "write a label key, as example.org/team")
    for index, item in enumerate(values):
        check_format(item, label_value, below.child(index), "write a label value of at most 63 characters")


def _rule(value: Values, spot: Spot) -> None:
    names = value.get("resourceNames", ())
    for index, name in enumerate(names):
        check_format(
            name, path_segment, spot.child("resourceNames", index), "write a name as it stands in metadata.name"
        )
        if name in names[:index]:
            spot.child("resourceNames", index).fault(duplicate(name), "name each object once")
    _operations(value.get("operations", ()), spot.child("operations"))
    _alone(
        value.get("apiGroups", ()), "API groups", spot.child("apiGroups"), 'write "" for the core group, "*" for all'
    )
    versions = value.get("apiVersions", ())
    _alone(versions, "API versions", spot.child("apiVersions"), 'write the versions, as v1, or "*" for all')
    for index, version in enumerate(versions):
        if not version:
            spot.child("apiVersions", index).fault(required(), "write a version, as v1")
    _resources(value.get("resources", ()), spot.child("resources"))
    check_choice(value, "scope", SCOPES, spot)


def _operations(operations: Sequence[str], spot: Spot) -> None:
    _alone(operations, "operations", spot, 'write CREATE, UPDATE, DELETE, CONNECT, or "*" for all')
    for index, operation in enumerate(operations):
        check_word(operation, OPERATIONS, spot.child(index))


def _alone(items: Sequence[str], what: str, spot: Spot, hint: str) -> None:
    """Require at least one item, and no other item beside `*`."""
    if not items:
        spot.fault(required(), hint)
    elif len(items) > 1 and "*" in items:
        spot.fault(invalid(items, f"if '*' is present, must not specify other {what}"), "leave the others out")


def _resources(resources: Sequence[str], spot: Spot) -> None:
    if not resources:
        spot.fault(required(), 'write plural names in small letters, as pods or deployments/scale, or "*" for all')
    _subresources(resources, spot)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        spot.fault(invalid(resources, detail), "leave the others out")
    plain = [resource for resource in resources if resource and "/" not in resource]
    if "*" in plain and plain[-1] != "*":  # the API server checks only the last one
        detail = "if '*' is present, must not specify other resources without subresources"
        spot.fault(invalid(resources, detail), "leave the others out")


def _subresources(resources: Sequence[str], spot: Spot) -> None:
    """Refuse resources after a pattern, such as `pods/*`, that matches them."""
    below: set[str] = set()  # resources with a pattern for all their subresources
    everywhere: set[str] = set()  # subresources with a pattern for all resources
    for index, resource in enumerate(resources):
        name, slash, subresource = resource.partition("/")
        if not resource:
            spot.child(index).fault(required(), "write a resource, as pods")
        elif slash:
            patterns = [f"{name}/*"] if name in below else []
            patterns += [f"*/{subresource}"] if subresource in everywhere else []
            for pattern in patterns:
                detail = f"if '{pattern}' is present, must not specify {resource}"
                spot.child(index).fault(invalid(resource, detail), "leave it out: it is among the others")
            below |= {name} if subresource == "*" else set()
            everywhere |= {subresource} if name == "*" else set()


FAILURE_POLICIES = ("Fail", "Ignore")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
NOT_FOUND_ACTIONS = ("Deny", "Allow")
PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}

STATIC_SUFFIX = ".static.k8s.io"
ANNOTATIONS_SIZE = 256 * 1024
MATCH_CONDITIONS = 64
AUDIT_ANNOTATIONS = 20
VALUE_EXPRESSION_SIZE = 5 * 1024

_UNNAMED = "name the policy that this binding puts into force"
_RULE_HINT = "name at least one resource rule: operations, apiGroups, apiVersions and resources"


def validate_policy(value: Values, top: Spot, dialect: Dialect, *, mutating: bool) -> None:
    """Note every problem of a policy."""
    _metadata(value.get("metadata", {}), top.child("metadata"), dialect)
    _own_annotations(value.get("metadata", {}).get("annotations", {}), top.child("metadata", "annotations"))
    spec, spot = value.get("spec", {}), top.child("spec")
    check_choice(spec, "failurePolicy", FAILURE_POLICIES, spot)
    if "paramKind" in spec:
        _param_kind(spec["paramKind"], spot.child("paramKind"))
    _constraints(spec, spot, mutating=mutating)
    composed = mutating or bool(spec.get("variables"))
    expressions = Expressions(dialect, params="paramKind" in spec, composed=composed)
    _match_conditions(spec.get("matchConditions", ()), spot.child("matchConditions"), expressions)
    _variables(spec.get("variables", ()), spot.child("variables"), expressions)
    if mutating:
        _mutations(spec.get("mutations", ()), spot.child("mutations"), expressions)
        if check_needed(
            spec, "reinvocationPolicy", spot, "write Never, or IfNeeded to run again after other mutations"
        ):
            check_choice(spec, "reinvocationPolicy", REINVOCATION_POLICIES, spot)
    else:
        _checks(spec, value.get("metadata", {}).get("name", ""), spot, expressions)


def validate_binding(value: Values, top: Spot, dialect: Dialect, *, mutating: bool) -> None:
    """Note every problem of a binding."""
    _metadata(value.get("metadata", {}), top.child("metadata"), dialect)
    spec, spot = value.get("spec", {}), top.child("spec")
    is_declared = dialect.release.validates_declaratively and not mutating
    if spec.get("policyName"):
        check_format(spec["policyName"], dns_subdomain, spot.child("policyName"), "write the policy's metadata.name")
    elif not is_declared:
        check_needed(spec, "policyName", spot, _UNNAMED)
    if "paramRef" in spec:
        _param_ref(spec["paramRef"], spot.child("paramRef"))
    if "matchResources" in spec:
        match_resources(spec["matchResources"], spot.child("matchResources"))
        if mutating:
            no_delete(spec["matchResources"], spot.child("matchResources"))
    if is_declared:
        check_needed(spec, "policyName", spot, _UNNAMED)
    if not mutating:
        _actions(spec.get("validationActions", ()), spot.child("validationActions"), dialect)


def _metadata(value: Values, spot: Spot, dialect: Dialect) -> None:
    name = value.get("name", "")
    if generated := value.get("generateName"):
        # As maskTrailingDash of the API server: a dash at the end is valid, because the generated name continues.
        masked = f"{generated[:-2]}a" if len(generated) > 1 and generated.endswith("-") else generated
        for words in dns_subdomain(masked):
            spot.child("generateName").fault(invalid(generated, words), NAME_HINT)
    if name:
        check_format(name, dns_subdomain, spot.child("name"), NAME_HINT)
        if name.endswith(STATIC_SUFFIX):
            reserved = (
                f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based configurations '
                "and cannot be managed via the API"
            )
            if dialect.release.reserves_static_names and not dialect.stored:
                spot.child("name").fault(invalid(name, reserved), "choose another name")
            else:
                spot.child("name").warn(reserved, "choose another name")
    else:
        spot.child("name").fault(required("name or generateName is required"), "a file needs a name of its own")
    if value.get("namespace"):
        spot.child("namespace").warn(forbidden("not allowed on this type"), "a policy is in no namespace: leave it out")
    check_labels(value.get("labels", {}), spot.child("labels"))
    _annotations(value.get("annotations", {}), spot.child("annotations"))
    for finalizer in value.get("finalizers", ()):
        check_format(finalizer, label_key, spot.child("finalizers"), "leave finalizers out")


def _own_annotations(annotations: Mapping[str, str], spot: Spot) -> None:
    """Warn of unknown annotations with this service's prefix, because a typo would silently have no effect."""
    for key, value in annotations.items():
        if not key.startswith(OWN_PREFIX):
            continue
        if key not in OWN_ANNOTATIONS:
            names = [annotation.removeprefix(OWN_PREFIX) for annotation in OWN_ANNOTATIONS]
            meant = closest(key.removeprefix(OWN_PREFIX), names)
            hint = f"did you mean {OWN_PREFIX}{meant}?" if meant else f"there are {', '.join(OWN_ANNOTATIONS)}"
            spot.child(key).warn("unknown annotation", hint, key=True)
        elif key == DERIVE and value not in ("true", "false"):
            spot.child(key).warn(f"{quote(value)} is neither true nor false", 'write "false" to leave templates alone')


def _annotations(annotations: Mapping[str, str], spot: Spot) -> None:
    for key in annotations:
        for words in label_key(key.lower()):
            hint = "write an annotation key, as example.org/owner"
            spot.child(key).fault(invalid(key, words), hint, path="metadata.annotations", key=True)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_SIZE:
        spot.fault(too_long(ANNOTATIONS_SIZE), "keep notes of that length elsewhere")


def _param_kind(value: Values, spot: Spot) -> None:
    if check_needed(value, "apiVersion", spot, "write it as in the parameters themselves: v1 for ConfigMaps"):
        _group_version(value["apiVersion"], spot.child("apiVersion"))
    if check_needed(value, "kind", spot, "write the kind of the parameters, as ConfigMap"):
        kind = value["kind"]
        for words in dns1035_label(kind.lower()):
            detail = f"may have mixed case, but should otherwise match: {words}"
            spot.child("kind").fault(invalid(kind, detail), "write the kind of the parameters, as ConfigMap")


def _group_version(text: str, spot: Spot) -> None:
    hint = "write v1 or group/version, as in the parameters themselves"
    group, _, version = text.rpartition("/") if text != "/" else ("", "", "")
    if "/" in group:
        spot.fault(invalid(text, f"unexpected GroupVersion string: {text}"), hint)
        return
    if group and (problems := dns_subdomain(group)):
        spot.fault(invalid(group, ",".join(problems)), hint)
    if not version:
        spot.fault(invalid(text, "version must be specified"), hint)
    elif problems := dns1035_label(version):
        spot.fault(invalid(version, ",".join(problems)), hint)


def _constraints(spec: Values, spot: Spot, *, mutating: bool) -> None:
    below = spot.child("matchConstraints")
    if "matchConstraints" not in spec:
        below.fault(required(), _RULE_HINT)
        return
    constraints = spec["matchConstraints"]
    match_resources(constraints, below)
    unconverted(constraints, below)
    if not constraints.get("resourceRules"):
        below.child("resourceRules").fault(required(), _RULE_HINT)
    if mutating:
        no_delete(constraints, below)


def _match_conditions(conditions: Sequence[Values], spot: Spot, expressions: Expressions) -> None:
    if len(conditions) > MATCH_CONDITIONS:
        spot.fault(too_many(len(conditions), MATCH_CONDITIONS), "join conditions with &&")
    known: set[str] = set()
    for index, condition in enumerate(conditions):
        below = spot.child(index)
        text, name = condition.get("expression", ""), condition.get("name", "")
        if trimmed(text):
            expressions.match_condition(text, below.child("expression"))
        else:
            below.child("expression").fault(required(), "write an expression that is true for requests to judge")
        if not name:
            below.child("name").fault(required(), "name the condition: its name stands in errors")
            continue
        check_format(name, label_key, below.child("name"), "write a name, as exclude-leases")
        if name in known:
            below.child("name").fault(duplicate(name), "give each condition a name of its own")
        known.add(name)


def _variables(variables: Sequence[Values], spot: Spot, expressions: Expressions) -> None:
    known: set[str] = set()
    for index, variable in enumerate(variables):
        below = spot.child(index)
        text, name = variable.get("expression", ""), variable.get("name", "")
        if not trimmed(name):
            below.child("name").fault(required("name is not specified"), "expressions say variables.name")
        elif not is_identifier(name):
            hint = "use letters, digits and _ only, no digit first, and no word of CEL"
            below.child("name").fault(invalid(name, "must be a valid CEL identifier"), hint)
        elif name in known:
            below.child("name").warn(duplicate(name), "only the last variable of a name has an effect: rename one")
        known.add(name)
        if trimmed(text):
            expressions.variable(name, text, below.child("expression"))
        else:
            hint = "write the expression that the name stands for"
            below.child("expression").fault(required("expression is not specified"), hint)


def _checks(spec: Values, policy: str, spot: Spot, expressions: Expressions) -> None:
    """Check validations and audit annotations; at least one of them is required."""
    names = ("validations", "auditAnnotations")
    if not any(spec.get(name) for name in names):
        if not any(spot.report.hidden((*spot.path, name)) for name in names):
            for name in names:
                detail = "validations or auditAnnotations must contain at least one item"
                spot.child(name).fault(required(detail), "add a validation: an expression that has to be true")
        return
    for index, validation in enumerate(spec.get("validations", ())):
        _validation(validation, spot.child("validations", index), expressions)
    _audit_annotations(spec.get("auditAnnotations", ()), policy, spot.child("auditAnnotations"), expressions)


def _validation(value: Values, spot: Spot, expressions: Expressions) -> None:
    if trimmed(text := value.get("expression", "")):
        expressions.validation(text, spot.child("expression"))
    else:
        hint = "write an expression that is true for what is allowed"
        spot.child("expression").fault(required("expression is not specified"), hint)
    message_expression = value.get("messageExpression", "")
    if trimmed(message_expression):
        expressions.message(message_expression, spot.child("messageExpression"))
    elif message_expression:
        hint = "write an expression for the message, or leave it out"
        spot.child("messageExpression").fault(invalid(message_expression, "must be non-empty if specified"), hint)
    message = value.get("message", "")
    if message and not trimmed(message):
        hint = "write what is wrong and what to do, or leave it out"
        spot.child("message").fault(invalid(message, "must be non-empty if specified"), hint)
    elif any(character in trimmed(message) for character in "\n\r"):
        hint = "put it on one line: >- folds a YAML text"
        spot.child("message").fault(invalid(message, "must not contain line breaks"), hint)
    check_choice(value, "reason", REASONS, spot)


def _audit_annotations(items: Sequence[Values], policy: str, spot: Spot, expressions: Expressions) -> None:
    if len(items) > AUDIT_ANNOTATIONS:
        shown = [{"Key": item.get("key", ""), "ValueExpression": item.get("valueExpression", "")} for item in items]
        detail = f"must not have more than {AUDIT_ANNOTATIONS} auditAnnotations"
        spot.fault(invalid(shown, detail), "put several values into one annotation")
    keys: set[str] = set()
    for index, item in enumerate(items):
        below, key = spot.child(index), item.get("key", "")
        if not policy:
            below.child("key").fault(invalid(key, "requires metadata.name be non-empty"), "name the policy")
        else:
            for words in label_key(f"{policy}/{key}"):
                hint = "write a key without a slash: the policy's name becomes its prefix"
                below.child("key").fault(invalid(f"{policy}/{key}", words), hint)
        _value_expression(item.get("valueExpression", ""), below.child("valueExpression"), expressions)
        if key in keys:
            below.child("key").fault(duplicate(key), "give each annotation a key of its own")
        keys.add(key)


def _value_expression(text: str, spot: Spot, expressions: Expressions) -> None:
    inner = trimmed(text)
    if not inner:
        hint = "write an expression for the value; null for no annotation"
        spot.fault(required("valueExpression is not specified"), hint)
    elif len(inner.encode()) > VALUE_EXPRESSION_SIZE:
        detail = f"must not exceed {VALUE_EXPRESSION_SIZE} bytes in length"
        spot.fault(required(detail), "move parts of it to variables")
    else:
        expressions.audit_annotation(text, spot)


def _mutations(mutations: Sequence[Values], spot: Spot, expressions: Expressions) -> None:
    if not mutations:
        spot.fault(required("mutations must contain at least one item"), "add a mutation: patchType and its expression")
    for index, mutation in enumerate(mutations):
        _mutation(mutation, spot.child(index), expressions)


def _mutation(value: Values, spot: Spot, expressions: Expressions) -> None:
    kind = value.get("patchType", "")
    if not kind:
        spot.child("patchType").fault(required(), "write ApplyConfiguration or JSONPatch")
        return
    if kind not in PATCHES:
        check_word(kind, tuple(PATCHES), spot.child("patchType"))
        return
    field = PATCHES[kind]
    (other,) = (name for name in PATCHES.values() if name != field)
    below = spot.child(field)
    if field not in value:
        below.fault(required(f"must be specified when patchType is {kind}"), f"add {field} with its expression")
    elif not trimmed(text := value[field].get("expression", "")):
        below.child("expression").fault(required(), "write the expression of the patch")
    else:
        compiled = expressions.json_patch if kind == "JSONPatch" else expressions.apply_configuration
        compiled(text, below.child("expression"))
    if other in value:
        detail = f"must not be specified when patchType is {kind}"
        spot.child(other).fault(invalid(f"{{{other}}}", detail), "make a mutation of its own of it", key=True)


def _param_ref(value: Values, spot: Spot) -> None:
    name, selected = value.get("name", ""), "selector" in value
    hint = "a binding takes one object by name, or all that selector selects"
    if name:
        check_format(name, path_segment, spot.child("name"), "write the metadata.name of the parameters")
    if name and selected:
        spot.child("name").fault(forbidden("name and selector are mutually exclusive"), hint)
    if selected:
        selector(value["selector"], spot.child("selector"))
    if name and selected:
        spot.child("selector").fault(forbidden("name and selector are mutually exclusive"), hint, key=True)
    if not name and not selected and not spot.report.hidden((*spot.path, "selector")):
        spot.fault(required("one of name or selector must be specified"), hint)
    if check_needed(
        value, "parameterNotFoundAction", spot, "write Deny, or Allow to skip the policy without parameters"
    ):
        check_choice(value, "parameterNotFoundAction", NOT_FOUND_ACTIONS, spot)


def _actions(actions: Sequence[str], spot: Spot, dialect: Dialect) -> None:
    known: set[str] = set()
    for index, action in enumerate(actions):
        check_word(action, ACTIONS, spot.child(index))
        if action in known:
            spot.child(index).fault(duplicate(Word(action)), "name each action once")
        known.add(action)
    if {"Deny", "Warn"} <= known:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        spot.fault(invalid(actions, detail), "keep Deny alone: what it refuses is told anyway")
    if not known:
        detail = "" if dialect.release.validates_declaratively else "at least one validation action is required"
        spot.fault(required(detail), "write Deny, Warn or Audit")
