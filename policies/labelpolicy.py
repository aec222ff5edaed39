"""The rule of reserved labels as policies that the API server enforces itself, so that it depends on no process here.

One ValidatingAdmissionPolicy judges every write, because the API server says only the first of several refusals. It
goes by the places of policies/labels.py. Objects may have any shape: a step into one never fails, as an error would
refuse a write without reserved labels. Labels that are no map are left to the API server's own validation.

Nearly no write has a reserved label. So the condition first looks for a key that could be one: where there is none, the
API server evaluates neither the validation nor its message.

Another policy, in a file, judges what can write labels past all of this. The API server asks no webhook about
MutatingAdmissionPolicies, so whoever may write one can add a label to what an exempt component writes. It converts
custom resources after admission, and a conversion may change labels and annotations. Only a policy that kube-apiserver
reads from a file is asked about such objects. Source: https://kubernetes.io/docs/tasks/extend-kubernetes/
custom-resources/custom-resource-definition-versioning/#response.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Final, Literal

from msgspec import Struct

from policies.celtext import at, every, globs, guarded, is_map, some, text, texts, values
from policies.engine.match import ResourceRule, SelectorRequirement
from policies.engine.request import JsonObject, mapping, mappings
from policies.engine.rule import HookCondition, PolicyException
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.engine.violation import listed
from policies.guard import ASK
from policies.labels import (
    BINDING,
    KEEP,
    KEPT_KINDS,
    NAMESPACE,
    OWN_ORGANIZATION,
    POD,
    RESERVED_DOMAINS,
    RULE,
    SET_ORGANIZATION,
    SUMMARY,
    USE_OWN_PREFIX,
    LabelException,
    Role,
    places_of,
)
from policies.matchconditions import GROUPS, KIND, LABELS, RESERVED, RESERVED_PART, USERNAME, candidate, is_excepted
from policies.objects.fieldpath import Pattern, Wildcard, parse, render
from policies.objects.workload import STANDARD, Workload

MOST = 2000
"""The most labels at a place, and places in a list: looking through many more takes the API server seconds."""

_SHOWN = 10
# Ten of them, the sentence and a remedy stay below the 5,120 bytes that a message may have.
_LENGTH = 440


def spec(
    workloads: Mapping[tuple[str, str], Workload],
    exceptions: Sequence[LabelException],
    conditions: Iterable[HookCondition],
    namespaces: Iterable[SelectorRequirement],
) -> JsonObject:
    """The spec of the policy. conditions: of what it judges. namespaces: requirements on those whose objects it judges.

    Objects in Namespaces of the control plane are left alone.
    """
    variables = {
        "kind": KIND,
        # In one expression, so that the API server compiles it once.
        "both": f"[object, oldObject].map(o, {_places(workloads)})",
        "before": "variables.both[1].transformMapEntry(i, p, {string(p[0]): p[1]})",
        "refused": f"variables.both[0].map(p, {_added(exceptions)}).flatten() +\n{_REMOVED}",
    }
    place = "namespaceObject.metadata.?labels.orValue({})"
    spared = f"{place}[?{text(CONTROL_PLANE_LABEL)}] == optional.of({text(CONTROL_PLANE)})"
    others = [f"!({_meets(place, requirements)})"] if (requirements := tuple(namespaces)) else []
    is_spared = f"namespaceObject != null && !({_IS_PROBE}) && {some([spared, *others])}"
    is_judged = some([_IS_PROBE, every(f"({one.expression})" for one in conditions) or "true"], " ||\n  ")
    looks_reserved = candidate(tuple(workloads.values()), cluster_scope=True)
    everything = ResourceRule(("CREATE", "UPDATE"), ("*",), ("*/*",)).to_json("*")
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [everything],
        },
        "matchConditions": [{"name": "is-concerned", "expression": f"{looks_reserved} &&\n{is_judged}"}],
        "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
        "validations": [
            {
                "expression": f"variables.refused.size() == 0 || ({is_spared})",
                "reason": "Forbidden",
                "message": SUMMARY,
                "messageExpression": _message(exceptions),
            }
        ],
    }


PROBE = "probe.coreweave.cloud/cks-admission"
"""A label that the policy refuses in a dry run, whoever asks and wherever, so that one sees whether it is in force."""
REFUSAL = re.compile(
    "ValidatingAdmissionPolicy '(?P<policy>[^']+)'(?: with binding '(?P<binding>[^']+)')? denied request: "
)
"""How the API server says that a policy refuses; without a binding where the policy itself is wrong."""
_IS_PROBE = "request.?dryRun == optional.of(true) && " + at(
    "object", LABELS, lambda it: f"{is_map(it)} && '{PROBE}' in {it}"
)


def no_exception_covers(exceptions: Iterable[PolicyException], today: date) -> list[HookCondition]:
    """The condition that is false for what an exception covers that has not ended; none without such exceptions."""
    kind = "request.kind.kind + (request.kind.group == '' ? '' : '.' + request.kind.group)"
    namespace = f"({KIND} == '/Namespace' ? '' : request.?namespace.orValue(''))"
    covered = []
    for exception in (one for one in exceptions if RULE in one.rules and one.holds(today)):
        matched = (
            (namespace, exception.namespaces),
            (f"({kind})", exception.kinds),
            ("request.?name.orValue('')", exception.names),
            (USERNAME, exception.users),
        )
        clauses = [f"{one}.matches({globs(patterns)})" for one, patterns in matched if patterns]
        if exception.groups:
            clauses.append(f"has({GROUPS}) && {GROUPS}.exists(g, g.matches({globs(exception.groups)}))")
        if requirements := exception.object_selector.requirements:
            meets = _meets("o.?metadata.?labels.orValue({})", requirements)
            clauses.append(f"[object, oldObject].exists(o, o != null && {meets})")
        covered.append(f"({every(clauses or ['true'])})")
    return [HookCondition("no-exception-covers", "!" + some(covered, " ||\n  "))] if covered else []


def _meets(labels: str, requirements: Iterable[SelectorRequirement]) -> str:
    clauses = [is_map(labels)]
    for one in requirements:
        key = text(one.key)
        among = f" && {labels}[{key}] in {texts(one.values)}" if one.operator in ("In", "NotIn") else ""
        clauses.append(f"{'!' if one.operator in ('NotIn', 'DoesNotExist') else ''}({key} in {labels}{among})")
    return every(clauses)


# The substring test is an optimization: it is false for nearly every label.
_IS_RESERVED = f"k.contains({text(RESERVED_PART)}) && {RESERVED}"
_LABEL = "k + (type(v) == string ? '=\"' + v + '\"' : '')"
_PLAIN = "^[-_A-Za-z0-9]+$"
# What gets the labels at a place: Pods; a workload, or a job between it and its Pods; anything else.
_POD, _MAKER, _OTHER = "pod", "maker", "other"
# Too many places to look at each.
_MANY = "many"


def _places(workloads: Mapping[tuple[str, str], Workload]) -> str:
    """The list of the places in `o`, an object of its kind or null: path, labels, and what gets them."""
    templates: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for kind, row in (*workloads.items(), (BINDING, None)):
        makes_pods = row is not None and bool(row.templates or row.pod_labels)
        uses = {Role.POD: _POD, **({Role.OWN: _MAKER, Role.JOB: _MAKER} if makes_pods else {})}
        whole = row.templates if row is not None and row.shape == STANDARD else ()
        inside = {(*template, *pattern) for template in whole for pattern in _IN_TEMPLATES}
        places = [place for place in places_of(kind, row) if place.pattern not in inside]
        for table, lists in (
            (templates, [_listed(template, _POD, "o") for template in whole]),
            (others, [_listed(place.pattern, uses.get(place.role, _OTHER), "o") for place in places]),
        ):
            table.setdefault(" +\n  ".join(lists) or "[]", []).append("/".join(kind))
    of_template = " +\n  ".join(_listed(pattern, use, "t[1]", "t[0] + ") for pattern, use in _IN_TEMPLATES.items())
    return (
        f"({_by_kind(templates, '[]')}).map(t,\n  {of_template}).flatten() +\n"
        f"({_by_kind(others, _listed(LABELS, _OTHER, 'o'))})"
    )


_IN_TEMPLATES = {LABELS: _POD, (*parse("spec.volumes[*].ephemeral.volumeClaimTemplate"), *LABELS): _OTHER}


def _by_kind(kinds: Mapping[str, Iterable[str]], default: str) -> str:
    return "".join(f"variables.kind in {texts(names)} ?\n  {listed} :\n" for listed, names in kinds.items()) + default


def _listed(pattern: Pattern, use: str, base: str, path: str = "") -> str:
    """The list of the values at a pattern in `base`, each with its path and its use. path: CEL for that of `base`."""
    for position, step in enumerate(pattern):
        if isinstance(step, Wildcard):
            head, tail = pattern[:position], pattern[position + 1 :]
            before = text(f".{render(head)}" if head else "")
            deeper = sum(isinstance(later, Wildcard) for later in tail) or ""
            index, child = f"i{deeper}", f"c{deeper}"  # an inner variable must not hide an outer one
            tests, children = guarded(base, head)
            tests.append(f"type({children}) == {'list' if step is Wildcard.ITEMS else 'map'}")
            # Quoted, no key makes two paths equal.
            key = f"({index}.matches({text(_PLAIN)}) ? '.' + {index} : '[' + strings.quote({index}) + ']')"
            where = f"'[' + string({index}) + ']'" if step is Wildcard.ITEMS else key
            inner = _listed(tail, use, child, f"{path}{before} + {where} + ")
            is_there = f"{is_map(child)} && {text(str(tail[0]))} in {child}" if tail else "true"
            whole = f"[[dyn({path}{before}), dyn({children}), dyn({text(_MANY)})]]"
            listed = f"{children}.transformList({index}, {child}, {is_there},\n    {inner}).flatten()"
            return f"({every(tests)} ? ({children}.size() > {MOST} ? {whole} : {listed}) : [])"
    tests, there = guarded(base, pattern)
    of_pattern = text(f".{render(pattern)}" if pattern else "")
    listed = f"[[dyn({path}{of_pattern}), dyn({there}), dyn({text(use)})]]"
    return f"({every(tests)} ? {listed} : [])" if tests else listed


def _added(exceptions: Sequence[LabelException]) -> str:
    """The list of the reserved labels at a place `p` that are new or have another value, and of no exception."""
    on_pod = some(is_excepted(exception) for exception in exceptions if POD in exception.kinds)
    copied = f"variables.both[0].exists(t, t[2] == {text(_POD)} && {_holds('t[1]')})"
    owned = "object.?metadata.?ownerReferences.orValue([]).exists(r, r.?controller == optional.of(true))"
    allowed = [
        f"[{_BEFORE}].exists(o, {_holds('o')})",
        f"p[2] == {text(_POD)} && {on_pod}",
        f"p[2] == {text(_MAKER)} && {on_pod} && ({copied} || {owned})",
        *(_is_allowed(exception) for exception in exceptions if exception.kinds - {POD}),
    ]
    is_allowed = some(allowed, " ||\n    ")
    where = f"variables.both[0].filter(t, t[2] == {text(_POD)}).map(t, string(t[0]).substring(1)).join(' or ')"
    useless = f"p[2] == {text(_MAKER)} && {on_pod} ? ' has no effect on any Pod here, put it at ' + {where} : ''"
    many = f": more than {MOST:,} entries are too many to look through"
    return (
        f"!({is_map('p[1]')} || p[2] == {text(_MANY)}) ? [] :\n"
        f"  p[1].size() > {MOST} ? ({_BEFORE} == p[1] ? [] : [p[0].substring(1) + {text(many)}]) :\n"
        f"  p[1].transformList(k, v, {_IS_RESERVED} && !{is_allowed},\n"
        f"    p[0].substring(1) + ': ' + {_LABEL} + ({useless}))"
    )


_BEFORE = "variables.before[?p[0]].orValue(dyn(null))"


def _names(kinds: Iterable[tuple[str, str]]) -> str:
    return texts(sorted("/".join(kind) for kind in kinds))


_GONE = f"{_IS_RESERVED} && !({at('object', LABELS, lambda labels: every([is_map(labels), f'k in {labels}']))})"
# The list of the reserved labels that are removed where they are kept.
_REMOVED = (
    f"(variables.kind in {_names(KEPT_KINDS)} ? {values('oldObject', LABELS)} : []).filter(o, {is_map('o')})"
    f".map(o, o.transformList(k, v, {_GONE},\n  'metadata.labels: ' + {_LABEL} + ' must not be removed')).flatten()"
)


def _holds(labels: str) -> str:
    return f"{is_map(labels)} && k in {labels} && {labels}[k] == v"


def _is_allowed(exception: LabelException) -> str:
    """Whether an exception covers an object's own label. Where labels are kept, the old value must be allowed too."""
    kinds = exception.kinds - {POD}
    clauses = ["p[0] == '.metadata.labels'", f"variables.kind in {_names(kinds)}", is_excepted(exception)]
    if exception.values and (kept := kinds & KEPT_KINDS):
        before = f"[{_BEFORE}].all(o, !({is_map('o')} && k in o) || o[k] in {texts(sorted(exception.values))})"
        clauses.append(f"(!(variables.kind in {_names(kept)}) || {before})")
    return every(clauses)


def _message(exceptions: Iterable[LabelException]) -> str:
    """One line: the sentence, the first labels with their paths, how many more there are, and the remedy."""
    count = "variables.refused.size()"
    some_of = f"variables.refused.sort().slice(0, {count} < {_SHOWN} ? {count} : {_SHOWN})"
    # A line break would make the API server drop the message.
    printable = "s.findAll('[ -~]+').join('?')"
    shown = f"{some_of}.map(s, {printable}).map(s, s.size() > {_LENGTH} ? s.substring(0, {_LENGTH}) + '...' : s)"
    more = f"({count} > {_SHOWN} ? '; and ' + string({count} - {_SHOWN}) + ' more' : '')"
    begins = f"'metadata.labels: {CONTROL_PLANE_LABEL}='"
    own = [one for exception in exceptions if exception.key == CONTROL_PLANE_LABEL for one in sorted(exception.values)]
    is_own = f"variables.kind in {_names([NAMESPACE])} && variables.refused.exists(s, s.startsWith({begins}))"
    kept = "variables.refused.all(s, s.endsWith(' must not be removed'))"
    organization = OWN_ORGANIZATION.format(f'"{own[0]}"') if own else SET_ORGANIZATION
    remedy = f"({kept} ? {text(KEEP)} : {is_own} ? {text(organization)} : {text(USE_OWN_PREFIX)})"
    return f"{text(SUMMARY)} + ' ' + {shown}.join('; ') +\n{more} + '. ' +\n{remedy}"


POLICY: Final = "MutatingAdmissionPolicy"
DEFINITION: Final = "CustomResourceDefinition"
_DEFINITIONS: Final = "customresourcedefinitions"

_MOST_KEYS: Final = 3
_DOMAINS: Final = "|".join(map(re.escape, RESERVED_DOMAINS))
# The slash before the name is ~1 in a JSON Pointer: RFC 6901.
_KEY_THERE: Final = rf"[a-zA-Z0-9.-]*(?:{_DOMAINS})(?:/|~1)[a-zA-Z0-9._-]*"
_KEY: Final = re.compile(rf"(?<![a-zA-Z0-9.-])((?:[a-zA-Z0-9-]+\.)*(?:{_DOMAINS}))(?:/|~1)([a-zA-Z0-9._-]*)")


class LabelWriter(Struct, frozen=True):
    """An object that can write labels.

    verdict: whether it names reserved ones, or may write some. text: how, a sentence without a full stop that begins
    with "it" or "its".
    """

    kind: str
    name: str
    verdict: Literal["reserved", "possible"]
    text: str


def of_policy(policy: JsonObject, exceptions: Collection[LabelException]) -> LabelWriter | None:
    """A MutatingAdmissionPolicy whose mutations or variables name a reserved label; None if they name none.

    Keys count wherever they stand in an expression, but not keys that are put together of parts. exceptions: reserved
    labels that people may set.
    """
    allowed = {exception.key for exception in exceptions if not exception.values}
    written, forms = mapping(policy, "spec"), ("jsonPatch", "applyConfiguration")
    holders = [mapping(mutation, form) for mutation in mappings(written, "mutations") for form in forms]
    texts = (str(one.get("expression", "")) for one in (*holders, *mappings(written, "variables")))
    named = (f"{domain}/{name}" for text in texts for domain, name in _KEY.findall(text))
    keys = list(dict.fromkeys(key for key in named if key not in allowed))
    if not keys:
        return None
    text = f"its expressions name reserved labels: {listed(keys, _MOST_KEYS)}"
    return LabelWriter(POLICY, str(mapping(policy, "metadata").get("name", "")), "reserved", text)


def of_definition(definition: JsonObject) -> LabelWriter | None:
    """What the conversion of a CustomResourceDefinition can do; None if no webhook converts its objects.

    The API server does not convert objects of a kind with a single version.
    """
    spec = mapping(definition, "spec")
    conversion = mapping(spec, "conversion")
    if conversion.get("strategy") != "Webhook" or len(spec.get("versions") or ()) < 2:
        return None
    client = mapping(mapping(conversion, "webhook"), "clientConfig")
    service = mapping(client, "service")
    url = str(client.get("url", "")).partition("?")[0]
    who = f"{service.get('namespace')}/{service.get('name')}" if service else url
    text = f"its conversion webhook, {who}, may change the labels of its objects after admission"
    return LabelWriter(DEFINITION, str(mapping(definition, "metadata").get("name", "")), "possible", text)


# What of an object can write labels; another part of it, such as a finalizer, may be anybody's.
_PARTS = {
    DEFINITION: "o.?spec.?conversion.?strategy == optional.of('Webhook') ? o.?spec.?conversion : optional.none()",
    "MutatingWebhookConfiguration": "o.?webhooks",
}
_PART = "".join(f"request.kind.kind == {text(kind)} ? ({part}) : " for kind, part in _PARTS.items()) + "o.?spec"
_TEXTS = (
    "object.spec.?mutations.orValue([]).map(m, "
    "m.?jsonPatch.?expression.orValue('') + ' ' + m.?applyConfiguration.?expression.orValue('')) +\n"
    "object.spec.?variables.orValue([]).map(v, string(v.?expression.orValue('')))"
)
_POLICIES = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations")


def writers_spec(
    conditions: Iterable[HookCondition],
    exceptions: Iterable[LabelException],
    trusted: Iterable[str],
    *,
    refuses: bool,
) -> JsonObject:
    """The spec of a policy in a file that goes by what is written, unlike a look at what exists.

    refuses: whether it finds all that can write labels, and does not search texts, in which keys are easily hidden.
    conditions: of what it judges. exceptions, trusted: keys and objects, as `kind/name`, that a search does not find.
    """
    if refuses:
        resources = [("admissionregistration.k8s.io", _POLICIES), ("apiextensions.k8s.io", (_DEFINITIONS,))]
        variables = {"parts": f"[object, oldObject].map(o, o == null ? optional.none() : {_PART})"}
        passes = "!variables.parts[0].hasValue() || variables.parts[0] == variables.parts[1]"
        message = f"request.kind.kind + {text(f' may put reserved labels where no rule sees them. {ASK}')}"
    else:
        resources = [("admissionregistration.k8s.io", _POLICIES[:1])]
        allowed = texts(sorted(exception.key for exception in exceptions if not exception.values))
        found = f"t.findAll({text(_KEY_THERE)}).map(k, k.replace('~1', '/')).filter(k, {RESERVED} && !(k in {allowed}))"
        variables = {"keys": f"({_TEXTS}).map(t, {found}).flatten()"}
        passes = f"variables.keys.size() == 0 || (request.kind.kind + '/' + request.name).matches({globs(trusted)})"
        shown = f"variables.keys.slice(0, variables.keys.size() < {_MOST_KEYS} ? variables.keys.size() : {_MOST_KEYS})"
        remedy = ". The guard is not asked about this: remove it, or name it in labels.trusted if it is the cloud's."
        message = f"'its expressions name reserved labels: ' + {shown}.join(', ') + {text(remedy)}"
    rules = [ResourceRule(("CREATE", "UPDATE"), (group,), names).to_json("*") for group, names in resources]
    return {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": one.name, "expression": one.expression} for one in conditions],
        "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
        "validations": [{"expression": passes, "reason": "Forbidden", "messageExpression": message}],
    }
