"""The cases of ValidatingAdmissionPolicy about parameters, and about the request and requester in expressions."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from cluster.policycases.case import (
    CONFIG_MAPS,
    CONTAINER,
    DENY,
    DEPLOYMENT,
    IGNORE,
    LIMITS,
    NAMESPACE,
    ONE_CHECK,
    POD,
    PRIORITY_CLASSES,
    ROLE,
    SPACE,
    WORKLOAD,
    Ask,
    Case,
    Json,
    validating,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def params() -> Iterator[Case]:
    """Which parameters a binding means."""
    small = {"expression": "int(object.data.a) > int(params.data.limit)", "message": "too small"}

    def with_reference(name: str, kind: Json | None, reference: Json | None, *validations: Any, **more: Any) -> Case:
        binding = DENY if reference is None else DENY | {"paramRef": {"parameterNotFoundAction": "Deny"} | reference}
        given: Json = {} if kind is None else {"paramKind": kind}
        return validating(f"params-{name}", *validations, bindings=[binding], **given, **more)

    yield with_reference("name", CONFIG_MAPS, {"name": "five"}, small)
    yield with_reference("name-namespace", CONFIG_MAPS, {"name": "five", "namespace": NAMESPACE}, small)
    yield with_reference("name-elsewhere", CONFIG_MAPS, {"name": "elsewhere", "namespace": "default"}, small)
    yield with_reference("name-nowhere", CONFIG_MAPS, {"name": "elsewhere"}, small)
    selected = {"selector": {"matchLabels": {"limit": "many"}}}
    yield with_reference("selector", CONFIG_MAPS, selected, small)
    yield with_reference(
        "selector-expression",
        CONFIG_MAPS,
        {"selector": {"matchExpressions": [{"key": "limit", "operator": "In", "values": ["one"]}]}},
        {"expression": "false", "messageExpression": "string(params.metadata.name)"},
    )
    nothing = {"selector": {"matchLabels": {"limit": "none"}}}
    yield with_reference("selector-nothing", CONFIG_MAPS, nothing, small)
    yield with_reference("selector-nothing-ignored", CONFIG_MAPS, nothing, small, **IGNORE)
    yield with_reference("selector-allow", CONFIG_MAPS, nothing | {"parameterNotFoundAction": "Allow"}, small)
    warn = {"validationActions": ["Warn"], "paramRef": selected | {"parameterNotFoundAction": "Deny"}}
    text = {"expression": "false", "messageExpression": "'limit ' + string(params.data.limit)"}
    yield validating("params-selector-warn", text, paramKind=CONFIG_MAPS, bindings=[warn])
    yield with_reference("selector-one-of-many", CONFIG_MAPS, selected, "params.metadata.name != 'many-2'")
    yield with_reference("absent", CONFIG_MAPS, None, "params == null && false")
    yield with_reference("absent-read", CONFIG_MAPS, None, small)
    yield with_reference("no-kind", None, {"name": "nowhere"}, {"expression": "false", "message": "judged"})
    for field in ("kind", "apiVersion"):
        yield with_reference(
            f"type-{field}".lower(),
            CONFIG_MAPS,
            {"name": "five"},
            f"params.{field} == 'x'",
            {"expression": "false", "messageExpression": f"'it is ' + string(params.{field})"},
        )
    yield with_reference(
        "limit",
        LIMITS,
        {"name": "three"},
        {"expression": "false", "messageExpression": "params.kind + ' ' + string(params.spec.maximum)"},
    )
    yield with_reference("limit-nowhere", LIMITS, {"name": "nowhere"}, small)
    yield with_reference(
        "cluster",
        PRIORITY_CLASSES,
        {"name": "policy-cases-high"},
        {"expression": "params.value < 100", "messageExpression": "'value ' + string(params.value)"},
    )
    yield with_reference(
        "cluster-namespace", PRIORITY_CLASSES, {"name": "policy-cases-high", "namespace": NAMESPACE}, "false"
    )
    yield with_reference(
        "cluster-selector", PRIORITY_CLASSES, {"selector": {"matchLabels": {"limit": "one"}}}, "params.value < 100"
    )
    yield with_reference("role", CONFIG_MAPS, {"name": "five"}, "false", asks=[ROLE])
    yield with_reference("role-ignored", CONFIG_MAPS, {"name": "five"}, "false", asks=[ROLE], **IGNORE)
    yield with_reference(
        "role-namespace", CONFIG_MAPS, {"name": "five", "namespace": NAMESPACE}, "params.data.limit == ''", asks=[ROLE]
    )
    yield with_reference("role-selector", CONFIG_MAPS, selected, "false", asks=[ROLE])
    yield with_reference(
        "role-cluster", PRIORITY_CLASSES, {"name": "policy-cases-high"}, "params.value < 1", asks=[ROLE]
    )
    yield with_reference("space", CONFIG_MAPS, {"name": "five"}, "false", asks=[SPACE])
    yield with_reference(
        "space-namespace",
        CONFIG_MAPS,
        {"name": "five", "namespace": NAMESPACE},
        "params.data.limit == ''",
        asks=[SPACE],
    )
    unknown = {"apiVersion": "nowhere.example.com/v1", "kind": "Nothing"}
    for policy, action in product(("Fail", "Ignore"), ("Deny", "Warn")):
        yield validating(
            f"params-unknown-{policy}-{action}".lower(),
            "false",
            paramKind=unknown,
            failurePolicy=policy,
            bindings=[{"validationActions": [action]}],
        )
    yield validating("params-unknown-core", "false", paramKind={"apiVersion": "v1", "kind": "Nothing"})
    yield with_reference(
        "condition",
        CONFIG_MAPS,
        selected,
        {"expression": "false", "message": "judged"},
        matchConditions=[{"name": "c", "expression": "params.data.limit == '2'"}],
    )
    yield with_reference(
        "condition-error",
        CONFIG_MAPS,
        {"name": "five"},
        "false",
        matchConditions=[{"name": "c", "expression": "params.data.x == '2'"}],
    )


def errors() -> Iterator[Case]:
    """How expressions fail while they run."""
    for index, text in enumerate(
        (
            "object.spec.replicas > 1",
            "object.data.a > 1",
            "object.data.a.b == 'c'",
            "int(object.data.a) / 0 == 1",
            "int(object.data.a) % 0 == 1",
            "[1, 2][int(object.data.a) + 4] == 1",
            "int('x' + object.data.a) == 1",
            "object.data.all(k, object.data[k] > 1)",
            "object.data.exists(k, object.data[k + 'x'] == '')",
            "object.data['b'] == ''",
            "object.metadata.labels.foo == 'x'",
            "object.metadata.name.size() > 'x'.size() && object.nothing",
            "duration(object.data.a) > duration('1s')",
            "timestamp(object.data.a) > timestamp('2020-01-01T00:00:00Z')",
            "quantity(object.data.a + 'x').isGreaterThan(quantity('1'))",
            "url(object.data.a).getHost() == ''",
            "ip(object.data.a).family() == 4",
            "object.data.a.matches('[' + object.data.a)",
            "object.data.a.substring(5) == ''",
            "optional.none().value() == 1",
            "object.?data.?b.value() == ''",
            "9223372036854775807 + int(object.data.a) > 0",
            "dyn(object.data.a) + 1 == 2",
            "object.data.a in object.data.a",
            "oldObject.data.a == ''",
            "object.metadata.__namespace__ == ''",
            "request.subResource == ''",
            "'x' == 'x' && dyn('text')",
            "-dyn(object.data.a) == 1",
            "object.data.b == '' || object.data.c == ''",
        )
    ):
        yield validating(f"error-{index:02d}", text)


def inputs() -> Iterator[Case]:
    """What expressions see of a request, by operation, kind and user; said in the message."""
    change = Ask("UPDATE", content={"data": {"a": "2"}}, old={"data": {"a": "1"}})
    delete = Ask("DELETE")
    create = Ask()

    def say(name: str, text: str, *asks: Ask, **more: Any) -> Case:
        return validating(f"input-{name}", {"expression": "false", "messageExpression": text}, asks=asks, **more)

    yield say("operation", "request.operation", create, change, delete, ROLE, SPACE)
    yield say("name", "request.name", create, change, delete, SPACE)
    yield say("namespace", "request.namespace", create, delete, SPACE)
    yield say(
        "user",
        "request.userInfo.username + ': ' + request.userInfo.groups.join(', ')",
        create,
        Ask(user="bob", groups=()),
        Ask(user="system:serviceaccount:default:x", groups=("testers", "b")),
    )
    yield say(
        "extra", "request.userInfo.extra['scopes'].join('+')", Ask(extra=(("scopes", "a"), ("scopes", "b"))), create
    )
    yield say(
        "kind",
        "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind",
        create,
        ROLE,
        SPACE,
        Ask(kind=DEPLOYMENT, content=WORKLOAD),
    )
    yield say("resource", "request.resource.group + '/' + request.requestResource.resource", create, ROLE)
    yield say("options", "string(request.options.kind) + string(request.options.dryRun.size())", create, change, delete)
    yield say("dry-run", "string(request.dryRun)", create)
    yield say("old", "'was ' + string(oldObject.data.a)", change, delete, create)
    yield say("new", "'is ' + string(object.data.a)", change, delete, create)
    yield say("null", "string(object == null) + string(oldObject == null)", change, delete, create)
    yield validating("input-metadata", "object.metadata.name == ''", asks=[create, delete])
    yield say(
        "type", "string(object.apiVersion) + ' ' + string(object.kind)", create, Ask(kind=DEPLOYMENT, content=WORKLOAD)
    )
    yield say("uid", "string(dyn(request).uid) + '.'", create)
    yield say(
        "where", "namespaceObject.metadata.name + ' ' + string(namespaceObject.metadata.labels['team'])", create, delete
    )
    yield validating("input-where-null", "namespaceObject == null && false", asks=[ROLE, SPACE, create])
    yield validating("input-where-read", "namespaceObject.metadata.name == ''", asks=[ROLE, SPACE])
    yield say("phase", "namespaceObject.status.phase + namespaceObject.spec.finalizers[0]", create)
    yield validating(
        "input-generated", {"expression": "request.name == 'x'", "message": "no"}, asks=[Ask(generate_name=True)]
    )
    yield validating("input-generated-name", {"expression": "false", "message": "no"}, asks=[Ask(generate_name=True)])
    yield say("replicas", "'r' + string(object.spec.replicas)", Ask(kind=DEPLOYMENT, content=WORKLOAD))
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["deployments/scale"],
        "resourceNames": ["v-input-scale-old"],
    }
    scale = Ask("UPDATE", DEPLOYMENT, {"spec": {"replicas": 7}}, old=WORKLOAD, subresource="scale")
    yield say(
        "scale",
        "request.subResource + ' ' + string(object.spec.replicas) + ' ' + request.kind.kind",
        scale,
        match={"resourceRules": [rule]},
    )
    pod = {"spec": {"containers": [CONTAINER], "serviceAccountName": "default"}}
    for name, text in (
        ("exec", "request.subResource + request.operation + string(object.command[0])"),
        ("exec-old", "string(oldObject == null) + string(object.kind) + request.kind.kind"),
        ("exec-metadata", "string(object.metadata.name)"),
        ("exec-options", "string(has(request.options)) + string(request.dryRun) + string(has(request.name))"),
        ("exec-options-read", "string(request.options.kind)"),
        ("exec-streams", "string(object.stdout) + string(object.stderr)"),
        ("exec-stdin", "string(object.stdin)"),
    ):
        rule = {
            "apiGroups": [""],
            "apiVersions": ["*"],
            "operations": ["CONNECT"],
            "resources": ["pods/exec"],
            "resourceNames": [f"v-input-{name}-old"],
        }
        yield say(name, text, Ask("CONNECT", POD, pod, subresource="exec"), match={"resourceRules": [rule]})
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["pods/eviction"],
        "resourceNames": ["v-input-eviction-old"],
    }
    yield say(
        "eviction",
        "request.operation + request.subResource + request.kind.kind + string(object.metadata.name)",
        Ask("CREATE", POD, {}, old=pod, subresource="eviction"),
        match={"resourceRules": [rule]},
    )


def authorizers() -> Iterator[Case]:
    """What the authorizer is asked, and where there is none."""
    users = (Ask(), Ask(user="bob"), Ask(user="eve", groups=("testers", "readers")))
    for name, text in {
        "resource": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
        "request": "authorizer.requestResource.check('delete').allowed()",
        "request-custom": "authorizer.requestResource.check('frob').allowed()",
        "path": "authorizer.path('/metrics').check('get').allowed()",
        "account": "authorizer.serviceAccount('default', 'default').group('').resource('pods').check('list').allowed()",
        "name": "authorizer.group('').resource('configmaps').namespace('default').name('x').subresource('status')"
        ".check('patch').allowed()",
        "selector": "authorizer.group('').resource('pods').labelSelector('a=b').check('list').allowed()",
        "errored": "authorizer.group('').resource('pods').check('list').errored()",
        "bad-account": "authorizer.serviceAccount('Default', 'default').path('/x').check('get').allowed()",
        "empty": "authorizer.group('').resource('').check('get').allowed()",
    }.items():
        yield validating(f"authorizer-{name}", {"expression": text, "message": "may not"}, asks=users)
    yield validating(
        "authorizer-condition",
        {"expression": "false", "message": "judged"},
        asks=users,
        matchConditions=[{"name": "c", "expression": "!authorizer.requestResource.check('frob').allowed()"}],
    )
    yield validating(
        "authorizer-annotation",
        auditAnnotations=[
            {"key": "k", "valueExpression": "string(authorizer.requestResource.check('frob').allowed())"}
        ],
    )
    yield validating(
        "authorizer-annotation-authorizer",
        auditAnnotations=[{"key": "k", "valueExpression": "string(authorizer.path('/x').check('frob').allowed())"}],
    )
    yield validating(
        "authorizer-variable-annotation",
        variables=[{"name": "may", "expression": f"string({ONE_CHECK})"}],
        auditAnnotations=[{"key": "k", "valueExpression": "variables.may"}],
    )


CASES: tuple[Case, ...] = tuple(case for make in (params, errors, inputs, authorizers) for case in make())
