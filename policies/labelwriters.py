"""Objects that can write labels which the guard is not asked about, because the requester is exempt or there is none.

The API server asks no webhook about MutatingAdmissionPolicies, so whoever may write one can add a label to what an
exempt component writes. It converts custom resources after admission, and a conversion may change labels and
annotations. Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
custom-resource-definition-versioning/#response.

Only a policy that kube-apiserver reads from a file is asked about such objects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal

from msgspec import Struct

from policies.celtext import globs, text, texts
from policies.engine.match import ResourceRule
from policies.engine.request import JsonObject, mapping, mappings
from policies.engine.rule import HookCondition
from policies.engine.violation import listed
from policies.guard import ASK
from policies.labels import RESERVED_DOMAINS, LabelException
from policies.matchconditions import RESERVED

POLICY: Final = "MutatingAdmissionPolicy"
DEFINITION: Final = "CustomResourceDefinition"
_DEFINITIONS: Final = "customresourcedefinitions"

_SHOWN: Final = 3
_DOMAINS: Final = "|".join(map(re.escape, RESERVED_DOMAINS))
# The slash before the name is ~1 in a JSON Pointer: RFC 6901.
_FOUND: Final = rf"[a-zA-Z0-9.-]*(?:{_DOMAINS})(?:/|~1)[a-zA-Z0-9._-]*"
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
    named = (f"{domain}/{name}" for text in _expressions(policy) for domain, name in _KEY.findall(text))
    keys = list(dict.fromkeys(key for key in named if key not in allowed))
    if not keys:
        return None
    text = f"its expressions name reserved labels: {listed(keys, _SHOWN)}"
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


def spec(
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
        found = f"t.findAll({text(_FOUND)}).map(k, k.replace('~1', '/')).filter(k, {RESERVED} && !(k in {allowed}))"
        variables = {"keys": f"({_TEXTS}).map(t, {found}).flatten()"}
        passes = f"variables.keys.size() == 0 || (request.kind.kind + '/' + request.name).matches({globs(trusted)})"
        shown = f"variables.keys.slice(0, variables.keys.size() < {_SHOWN} ? variables.keys.size() : {_SHOWN})"
        remedy = ". The guard is not asked about this: remove it, or name it in labels.trusted if it is the cloud's."
        message = f"'its expressions name reserved labels: ' + {shown}.join(', ') + {text(remedy)}"
    rules = [ResourceRule(("CREATE", "UPDATE"), (group,), names).to_json("*") for group, names in resources]
    return {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": one.name, "expression": one.expression} for one in conditions],
        "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
        "validations": [{"expression": passes, "reason": "Forbidden", "messageExpression": message}],
    }


def _expressions(policy: JsonObject) -> Iterator[str]:
    spec = mapping(policy, "spec")
    for mutation in mappings(spec, "mutations"):
        for form in ("jsonPatch", "applyConfiguration"):
            yield str(mapping(mutation, form).get("expression", ""))
    for variable in mappings(spec, "variables"):
        yield str(variable.get("expression", ""))
