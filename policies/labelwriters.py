"""Objects that can write labels which the guard is not asked about, because the requester is exempt or there is none.

The API server asks no webhook about MutatingAdmissionPolicies, so whoever may write one can add a label to what an
exempt component writes. It converts custom resources after admission, and a conversion may change labels and
annotations. Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
custom-resource-definition-versioning/#response.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, Literal

from msgspec import Struct

from policies.engine.request import JsonObject, mapping, mappings
from policies.engine.violation import listed
from policies.labels import RESERVED_DOMAINS, LabelException

POLICY: Final = "MutatingAdmissionPolicy"
DEFINITION: Final = "CustomResourceDefinition"

_SHOWN: Final = 3
_DOMAINS: Final = "|".join(map(re.escape, RESERVED_DOMAINS))
# The slash before the name is ~1 in a JSON Pointer: RFC 6901.
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


def _expressions(policy: JsonObject) -> Iterator[str]:
    spec = mapping(policy, "spec")
    for mutation in mappings(spec, "mutations"):
        for form in ("jsonPatch", "applyConfiguration"):
            yield str(mapping(mutation, form).get("expression", ""))
    for variable in mappings(spec, "variables"):
        yield str(variable.get("expression", ""))
