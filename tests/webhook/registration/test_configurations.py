"""The webhook configurations by which the API server knows the service."""

import base64
from typing import Any

import pytest
from support.builders import Json
from support.service.servers import default_rules

from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import Hook, HookCondition, Rule, RuleSet
from webhook.configuration.settings import Settings
from webhook.registration.configurations import registered, without_guard

_BUNDLE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
_ENCODED = base64.b64encode(_BUNDLE).decode()
_SERVICE: Json = {"service": "svc", "servicePort": 8443}
_CREATE_PODS = ResourceRule(("CREATE",), ("",), ("pods",), ("v1",))
_WRITE_ALL = ResourceRule(("CREATE", "UPDATE"), ("*",), ("*/*",))
_IS_RED = HookCondition("is-red", "object.spec.colour == 'red'")
_IS_BIG = HookCondition("is-big", "object.spec.size > 3")
_TIMEOUTS = {"timeoutSeconds": 7, "openTimeoutSeconds": 3, "essentialTimeoutSeconds": 1}
_RED_AND_BIG = "(// is-red\n(object.spec.colour == 'red') &&\n// is-big\n(object.spec.size > 3))"
_RED, _BIG = "(// is-red\n(object.spec.colour == 'red'))", "(// is-big\n(object.spec.size > 3))"
_OWN = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["cloud"]}


def _rule(name: str, *hooks: Hook, namespaces: LabelSelector | None = None, action: Any = "deny") -> Rule:
    return Rule(name, hooks, action, frozenset(), namespaces or LabelSelector())


def _configurations(
    *rules: Rule, client: Json = _SERVICE, own_namespace: str = "cloud", bundle: bytes = _BUNDLE
) -> list[Json]:
    chosen = {"cluster": {"namespace": own_namespace}, "registration": {"name": "cks", **_TIMEOUTS, **client}}
    return [dict(one) for one in registered(Settings.model_validate(chosen), bundle, RuleSet(rules))]


def _webhooks(*rules: Rule, **more: Any) -> list[Json]:
    """The entries of both configurations."""
    return [webhook for found in _configurations(*rules, **more) for webhook in found["webhooks"]]


def _entry(name: str, path: str, resources: ResourceRule, scope: str, condition: HookCondition, **more: Any) -> Json:
    """An entry that fails closed, as the API server has it."""
    client = {"service": {"name": "svc", "namespace": "cloud", "path": path, "port": 8443}, "caBundle": _ENCODED}
    return {
        "name": f"{name}.cks-admission.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchConditions": [{"name": condition.name, "expression": condition.expression}],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [_OWN]} if scope == "Namespaced" else {},
        "objectSelector": {},
        "rules": [
            {
                "apiGroups": [*resources.groups],
                "apiVersions": [*resources.versions],
                "operations": [*resources.operations],
                "resources": [*resources.resources],
                "scope": scope,
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 7,
        **more,
    }


def test_a_whole_registration() -> None:
    """Two configurations hold an entry per group and scope: path, rules, conditions, failure policy and selectors."""
    guard = _rule(
        "guard",
        Hook("validate", "things", (_WRITE_ALL,), "Fail", (_IS_RED,), everywhere=True),
        Hook("validate", "things", (_WRITE_ALL,), "Fail", (_IS_BIG,), scope="Cluster", everywhere=True),
    )
    fixer = _rule("fixer", Hook("mutate", "pods", (_CREATE_PODS,), "Ignore", (_IS_RED, _IS_BIG)))

    both = HookCondition("is-concerned", _RED_AND_BIG)
    opened = {"failurePolicy": "Ignore", "timeoutSeconds": 3, "reinvocationPolicy": "IfNeeded"}
    things = [
        _entry("things", "/validate/things", _WRITE_ALL, "Namespaced", _IS_RED),
        _entry("cluster-things", "/validate/things", _WRITE_ALL, "Cluster", _IS_BIG),
    ]
    pods = _entry("pods", "/mutate/pods", _CREATE_PODS, "Namespaced", both, **opened)
    head = {"apiVersion": "admissionregistration.k8s.io/v1"}
    metadata = {"name": "cks", "labels": {"app.kubernetes.io/name": "cks-admission"}}
    assert _configurations(guard, fixer) == [
        {**head, "kind": "MutatingWebhookConfiguration", "metadata": metadata, "webhooks": [pods]},
        {**head, "kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": things},
    ]


@pytest.mark.parametrize(
    ("client", "bundle", "config"),
    [
        # Without a bundle the roots of the system count.
        (
            {"service": "svc"},
            b"",
            {"service": {"name": "svc", "namespace": "cloud", "path": "/mutate/pods", "port": 443}},
        ),
        (
            {"url": "https://127.0.0.1:9443"},
            _BUNDLE,
            {"url": "https://127.0.0.1:9443/mutate/pods", "caBundle": _ENCODED},
        ),
        ({"url": "https://example.org/base/", "service": "svc"}, b"", {"url": "https://example.org/base/mutate/pods"}),
    ],
    ids=["service", "url", "url-with-a-path-wins-over-a-service"],
)
def test_the_service_is_reached_by_url_or_service(client: Json, bundle: bytes, config: Json) -> None:
    """The API server is given one way in, and the CA bundle where there is one."""
    fixer = _rule("fixer", Hook("mutate", "pods", (_CREATE_PODS,), "Ignore"))
    (webhook,) = _webhooks(fixer, client=client, bundle=bundle)

    assert webhook["clientConfig"] == config


@pytest.mark.parametrize(
    ("phases", "action", "kinds"),
    [
        ((), "deny", []),
        (("mutate", "validate"), "off", []),
        (("mutate",), "deny", ["MutatingWebhookConfiguration"]),
        (("validate",), "deny", ["ValidatingWebhookConfiguration"]),
    ],
)
def test_a_configuration_without_entries_is_left_out(phases: Any, action: str, kinds: list[str]) -> None:
    """There is no empty configuration: the API server would take it, and people would wonder."""
    rules = [_rule(phase, Hook(phase, "pods", (_CREATE_PODS,), "Fail"), action=action) for phase in phases]

    assert [found["kind"] for found in _configurations(*rules)] == kinds


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("Ignore", "Ignore", "Ignore"), ("Ignore", "Fail", "Fail"), ("Fail", "Ignore", "Fail"), ("Fail", "Fail", "Fail")],
)
def test_an_entry_fails_closed_where_one_of_its_rules_does(first: Any, second: Any, expected: str) -> None:
    """Of the failure policies in one entry the stricter one counts."""
    hooks = [Hook("mutate", "pods", (_CREATE_PODS,), policy) for policy in (first, second)]

    assert [webhook["failurePolicy"] for webhook in _webhooks(_rule("a", hooks[0]), _rule("b", hooks[1]))] == [expected]


@pytest.mark.parametrize(
    ("conditions", "other", "expected"),
    [
        pytest.param((_IS_RED,), (_IS_RED,), {"is-red": "object.spec.colour == 'red'"}, id="the-same"),
        pytest.param((_IS_RED,), (_IS_BIG,), {"is-concerned": f"{_BIG} ||\n{_RED}"}, id="different"),
        pytest.param((_IS_RED, _IS_BIG), (_IS_RED,), {"is-concerned": f"{_RED} ||\n{_RED_AND_BIG}"}, id="one-has-more"),
        pytest.param((_IS_RED,), (), {}, id="one-has-none"),
        pytest.param((), (), {}, id="none"),
    ],
)
def test_an_entry_asks_where_any_hook_would(
    conditions: tuple[HookCondition, ...], other: tuple[HookCondition, ...], expected: dict[str, str]
) -> None:
    """An entry has one condition at most, which hides no request that one of its rules is for."""
    hooks = [Hook("mutate", "pods", (_CREATE_PODS,), "Fail", each) for each in (conditions, other)]

    (webhook,) = _webhooks(_rule("a", hooks[0]), _rule("b", hooks[1]))

    assert {condition["name"]: condition["expression"] for condition in webhook["matchConditions"]} == expected


_AMONG = "request.resource.group + '/' + request.resource.resource in "
_EACH = f"{_AMONG}['batch/jobs'] ||\n{_AMONG}['/pods'] && {_BIG} ||\n{_AMONG}['/pods', 'apps/sets'] && {_RED}"


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        pytest.param(
            {"/pods": _IS_RED, "apps/sets": _IS_RED, "/pods/exec": _IS_BIG, "batch/jobs": None}, _EACH, id="each"
        ),
        pytest.param({"*/*": _IS_RED, "/pods": _IS_BIG}, f"{_AMONG}['/pods'] && {_BIG} ||\n{_RED}", id="all"),
        pytest.param({"*/*": None, "/pods": _IS_BIG}, "", id="all-without-one"),
    ],
)
def test_a_condition_is_for_the_resources_of_its_hooks(hooks: dict[str, HookCondition | None], expected: str) -> None:
    """What hooks without conditions are for is always asked about, the rest under its conditions, short ones first."""
    rules = []
    for name, condition in hooks.items():
        resources = (ResourceRule(("CREATE",), (name.partition("/")[0],), (name.partition("/")[2],)),)
        rules.append(_rule(name, Hook("validate", "x", resources, "Ignore", (condition,) if condition else ())))

    (webhook,) = _webhooks(*rules)

    assert "".join(one["expression"] for one in webhook["matchConditions"]) == expected


def test_resources_of_an_entry_are_joined() -> None:
    """An entry asks about what any of its rules is for, each resource rule once."""
    more = ResourceRule(("UPDATE",), ("apps",), ("deployments", "deployments/scale"), ("v1",))

    (webhook,) = _webhooks(
        _rule("a", Hook("mutate", "x", (_CREATE_PODS,), "Fail")),
        _rule("b", Hook("mutate", "x", (more, _CREATE_PODS), "Fail")),
    )

    assert [(rule["operations"], rule["resources"], rule["scope"]) for rule in webhook["rules"]] == [
        (["CREATE"], ["pods"], "Namespaced"),
        (["UPDATE"], ["deployments", "deployments/scale"], "Namespaced"),
    ]


_GOLD = LabelSelector((SelectorRequirement("tier", "In", ("gold",)), SelectorRequirement("old", "DoesNotExist")))
_GOLD_JSON = [{"key": "tier", "operator": "In", "values": ["gold"]}, {"key": "old", "operator": "DoesNotExist"}]


def test_a_rules_own_namespaces_are_told_where_it_is_alone() -> None:
    """A rule's namespace selector narrows its entry; with another rule in the entry the service judges by itself."""
    hook = Hook("mutate", "pods", (_CREATE_PODS,), "Ignore")
    gold = _rule("gold", hook, namespaces=_GOLD)

    (alone,) = _webhooks(gold)
    (together,) = _webhooks(gold, _rule("other", hook))

    assert alone["namespaceSelector"] == {"matchExpressions": [_OWN, *_GOLD_JSON]}
    assert together["namespaceSelector"] == {"matchExpressions": [_OWN]}


def test_namespaces_that_no_hook_is_for_are_left_out() -> None:
    """What all hooks of an entry ask of Namespaces stands in its selector, and nothing that only some of them ask."""
    silver = LabelSelector((_GOLD.requirements[1], SelectorRequirement("tier", "In", ("silver",))))
    first, second, third = (
        _rule(name, Hook("validate", "policies", (_CREATE_PODS,), "Fail", scope="*", namespaces=namespaces))
        for name, namespaces in (("a", _GOLD), ("b", silver), ("c", LabelSelector()))
    )

    selectors = [
        webhook["namespaceSelector"] for rules in ([first, second], [first, third]) for webhook in _webhooks(*rules)
    ]

    assert selectors == [{"matchExpressions": [_OWN, _GOLD_JSON[1]]}, {"matchExpressions": [_OWN]}]


def test_an_injected_ca_is_said_in_the_metadata() -> None:
    """The annotation names the Certificate whose CA is written by somebody else."""
    settings = Settings.model_validate({"registration": {"injectCaFrom": "cloud/serving"}})

    found = registered(settings, b"", default_rules())

    assert [configuration["metadata"] for configuration in found] == [
        {
            "name": "cks-admission",
            "labels": {"app.kubernetes.io/name": "cks-admission"},
            "annotations": {"cert-manager.io/inject-ca-from": "cloud/serving"},
        }
    ] * 2
    assert not any("caBundle" in webhook["clientConfig"] for each in found for webhook in each["webhooks"])


def test_without_the_guard_all_entries_fail_open() -> None:
    """Where the API server enforces the guard itself, no entry of the default settings fails closed."""
    settings = Settings.model_validate({"registration": {"apply": True}})
    made = {str(each["kind"]): each for each in registered(settings, b"", default_rules())}

    left = [entry for each in without_guard(made).values() for entry in each["webhooks"]]

    assert {entry["failurePolicy"] for each in made.values() for entry in each["webhooks"]} == {"Fail", "Ignore"}
    assert {entry["failurePolicy"] for entry in left} == {"Ignore"}
