"""Policy documents are read as a whole: what they say, where each mistake is, and whether they fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Loaded, read
from policies.admissionpolicy.model import (
    AuditAnnotation,
    Binding,
    Expression,
    MatchResources,
    MutationExpression,
    NamedExpression,
    NamedRule,
    Origin,
    ParamKind,
    ParamRef,
    Policy,
    Validation,
)
from policies.cel.environment import Dialect
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.kubernetes.release import RELEASES, Release

SMALL = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: small
spec:
  matchConstraints:
    resourceRules:
      - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  validations:
    - expression: object.metadata.name != ''
"""
SMALL_BINDING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: small
spec:
  policyName: small
  validationActions: [Deny]
"""
FULL = """\
# Two lines of comment
# before the document.
apiVersion: admissionregistration.k8s.io/v1beta1
kind: ValidatingAdmissionPolicy
metadata:
  name: full
  annotations: {example.org/owner: platform}
  labels: {team: platform}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: example.org/v1, kind: Limit}
  matchConstraints:
    matchPolicy: Exact
    namespaceSelector:
      matchLabels: {b: "1", a: "2"}
      matchExpressions: [{key: c, operator: Exists}]
    objectSelector:
      matchExpressions: [{key: d, operator: NotIn, values: [x, z]}]
    resourceRules:
      - operations: [CREATE, UPDATE]
        apiGroups: [apps]
        apiVersions: ["*"]
        resources: [deployments, deployments/scale]
        scope: Namespaced
    excludeResourceRules:
      - operations: ["*"]
        apiGroups: [apps]
        apiVersions: [v1]
        resources: [deployments]
        resourceNames: [free]
  matchConditions:
    - name: people
      expression: "!request.userInfo.username.startsWith('system:')"
  variables:
    - name: replicas
      expression: object.spec.replicas
  validations:
    - expression: |
        variables.replicas <=
          params.most
      messageExpression: "'at most ' + string(params.most)"
      message: too many
      reason: Forbidden
  auditAnnotations:
    - key: replicas
      valueExpression: >-
        string(variables.replicas)
"""
MUTATING = """\
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: MutatingAdmissionPolicy
metadata: {name: mutating}
spec:
  reinvocationPolicy: IfNeeded
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
      - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration: {expression: "Object{}"}
    - patchType: JSONPatch
      jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec/x'}]"}
---
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mutating}
spec:
  policyName: mutating
  paramRef: {selector: {matchLabels: {a: b}}, namespace: params}
  matchResources: {objectSelector: {}}
"""
PODS = NamedRule(api_groups=("",), api_versions=("v1",), operations=("CREATE",), resources=("pods",))


CASES = yaml.safe_load((Path(__file__).parent / "documents.yaml").read_text(encoding="utf-8"))


def _name(case: dict[str, str]) -> str:
    return case["name"]


def load(*texts: str) -> Loaded:
    """What documents of one file come to."""
    return read(documents("---\n".join(texts)))


def errors(*texts: str) -> list[str]:
    """The errors of documents of one file, as people read them."""
    return [str(problem) for problem in load(*texts).errors]


def warnings(*texts: str) -> list[str]:
    """The warnings of documents of one file."""
    return [str(problem) for problem in load(*texts).warnings]


def expression(text: str, path: str, line: int, column: int) -> Expression:
    """An expression of the file."""
    return Expression(text=text, path=path, file="policy.yaml", line=line, column=column)


def test_small_policy_has_the_defaults_of_the_api_server() -> None:
    """What a policy and a binding leave out is what the API server fills in."""
    assert load(SMALL, SMALL_BINDING) == Loaded(
        policies=(
            Policy(
                kind="ValidatingAdmissionPolicy",
                name="small",
                match_constraints=MatchResources(resource_rules=(PODS,)),
                validations=(
                    Validation(
                        expression=expression("object.metadata.name != ''", "spec.validations[0].expression", 10, 19)
                    ),
                ),
                failure_policy="Fail",
                origin=Origin(file="policy.yaml", line=1),
            ),
        ),
        bindings=(
            Binding(
                kind="ValidatingAdmissionPolicyBinding",
                name="small",
                policy_name="small",
                validation_actions=frozenset({"Deny"}),
                origin=Origin(file="policy.yaml", line=12),
            ),
        ),
    )


def test_every_field_of_a_policy_is_read() -> None:
    """Nothing that a validating policy says is lost, and each expression knows where it stands."""
    assert load(FULL).policies == (
        Policy(
            kind="ValidatingAdmissionPolicy",
            name="full",
            annotations={"example.org/owner": "platform"},
            labels={"team": "platform"},
            param_kind=ParamKind(api_version="example.org/v1", kind="Limit"),
            match_constraints=MatchResources(
                resource_rules=(
                    NamedRule(
                        api_groups=("apps",),
                        api_versions=("*",),
                        operations=("CREATE", "UPDATE"),
                        resources=("deployments", "deployments/scale"),
                        scope="Namespaced",
                    ),
                ),
                exclude_resource_rules=(
                    NamedRule(
                        resource_names=("free",),
                        api_groups=("apps",),
                        api_versions=("v1",),
                        operations=("*",),
                        resources=("deployments",),
                    ),
                ),
                namespace_selector=LabelSelector(
                    (
                        SelectorRequirement("a", "In", ("2",)),
                        SelectorRequirement("b", "In", ("1",)),
                        SelectorRequirement("c", "Exists"),
                    )
                ),
                object_selector=LabelSelector((SelectorRequirement("d", "NotIn", ("x", "z")),)),
                match_policy="Exact",
            ),
            match_conditions=(
                NamedExpression(
                    name="people",
                    expression=expression(
                        "!request.userInfo.username.startsWith('system:')", "spec.matchConditions[0].expression", 33, 20
                    ),
                ),
            ),
            variables=(
                NamedExpression(
                    name="replicas",
                    expression=expression("object.spec.replicas", "spec.variables[0].expression", 36, 19),
                ),
            ),
            validations=(
                Validation(
                    expression=expression(
                        "variables.replicas <=\n  params.most\n", "spec.validations[0].expression", 39, 9
                    ),
                    message="too many",
                    message_expression=expression(
                        "'at most ' + string(params.most)", "spec.validations[0].messageExpression", 41, 27
                    ),
                    reason="Forbidden",
                ),
            ),
            audit_annotations=(
                AuditAnnotation(
                    key="replicas",
                    value_expression=expression(
                        "string(variables.replicas)", "spec.auditAnnotations[0].valueExpression", 47, 9
                    ),
                ),
            ),
            failure_policy="Ignore",
            origin=Origin(file="policy.yaml", line=3),
        ),
    )


def test_mutating_policy_and_binding_are_read() -> None:
    """Mutations of both types, and the default that only v1alpha1 has for a missing parameter."""
    assert load(MUTATING) == Loaded(
        policies=(
            Policy(
                kind="MutatingAdmissionPolicy",
                name="mutating",
                param_kind=ParamKind(api_version="v1", kind="ConfigMap"),
                match_constraints=MatchResources(resource_rules=(PODS,)),
                mutations=(
                    MutationExpression(
                        patch_type="ApplyConfiguration",
                        expression=expression("Object{}", "spec.mutations[0].applyConfiguration.expression", 12, 41),
                    ),
                    MutationExpression(
                        patch_type="JSONPatch",
                        expression=expression(
                            "[JSONPatch{op: 'remove', path: '/spec/x'}]",
                            "spec.mutations[1].jsonPatch.expression",
                            14,
                            32,
                        ),
                    ),
                ),
                reinvocation_policy="IfNeeded",
                origin=Origin(file="policy.yaml", line=1),
            ),
        ),
        bindings=(
            Binding(
                kind="MutatingAdmissionPolicyBinding",
                name="mutating",
                policy_name="mutating",
                param_ref=ParamRef(
                    namespace="params",
                    selector=LabelSelector((SelectorRequirement("a", "In", ("b",)),)),
                    parameter_not_found_action="Deny",
                ),
                match_resources=MatchResources(),
                origin=Origin(file="policy.yaml", line=16),
            ),
        ),
    )


def test_each_mistake_is_shown_at_its_place() -> None:
    """A misspelt field, a bad word and a missing field: all at once, at key, value and parent."""
    text = SMALL.replace("spec:\n", "spec:\n  failurPolicy: Fail\n").replace("[CREATE]", "[CREATED]")
    text = text.replace("    - expression: object.metadata.name != ''\n", "    - message: x\n      reason: forbidden\n")

    assert errors(text, SMALL_BINDING) == [
        'policy.yaml:6:3: spec.failurPolicy: unknown field "spec.failurPolicy"\nhint: did you mean failurePolicy?',
        (
            "policy.yaml:9:23: spec.matchConstraints.resourceRules[0].operations[0]: "
            'Unsupported value: "CREATED": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"\n'
            "hint: did you mean CREATE?"
        ),
        (
            "policy.yaml:11:7: spec.validations[0].expression: Required value: expression is not specified\n"
            "hint: write an expression that is true for what is allowed"
        ),
        (
            'policy.yaml:12:15: spec.validations[0].reason: Unsupported value: "forbidden": '
            'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"\nhint: did you mean Forbidden?'
        ),
    ]


@pytest.mark.parametrize(
    ("written", "place", "excerpt"),
    [
        ("object.x ==\n  objekt.y", (13, 11), "object.x == objekt.y\n            ^"),
        ("|\n  object.x ==\n    objekt.y", (14, 13), "  objekt.y\n  ^"),
        (">-\n  object.x ==\n  objekt.y", (14, 11), "object.x == objekt.y\n            ^"),
        ('"object.x == \\\n  objekt.y"', (13, 11), "object.x == objekt.y\n            ^"),
        ("'''a'' == objekt.y'", (12, 29), "'a' == objekt.y\n       ^"),
    ],
    ids=["plain", "literal", "folded", "double quotes", "single quotes"],
)
def test_mistake_in_an_expression_is_shown_where_it_is_in_the_file(
    written: str, place: tuple[int, int], excerpt: str
) -> None:
    """Line and column are those of the file, however the expression is written, and a caret marks the place."""
    field = "    - message: x\n      reason: Invalid\n      expression: " + written.replace("\n", "\n        ")
    text = SMALL.replace("    - expression: object.metadata.name != ''", field)

    (problem,) = load(text, SMALL_BINDING).errors

    words = "undeclared reference to 'objekt' (in container '')"
    assert (problem.line, problem.column, problem.excerpt) == (*place, f"{words}\n{excerpt}")


def test_expression_problem_keeps_the_words_of_the_api_server() -> None:
    """The text for machines is the API server's, that for people is ours."""
    text = SMALL.replace("object.metadata.name != ''", "object.metadata.labels")

    (problem,) = load(text, SMALL_BINDING).errors

    assert (problem.text, str(problem)) == (
        'spec.validations[0].expression: Invalid value: "object.metadata.labels": must evaluate to bool but got dyn',
        (
            "policy.yaml:10:19: spec.validations[0].expression: must evaluate to bool but got dyn\n"
            "object.metadata.labels\n"
            "^\n"
            "hint: compare the value, as in `object.spec.hostNetwork == true`: fields of object have no known type"
        ),
    )


def test_what_cannot_be_read_is_complained_about_once() -> None:
    """A value of a wrong type, or behind a misspelt key, is not said to be missing too."""
    wrong_type = SMALL.replace("object.metadata.name != ''", "5")
    misspelt = SMALL.replace("validations:", "validation:")
    selector = SMALL_BINDING + "  paramRef: {selector: [], parameterNotFoundAction: Deny}\n"

    found = [[problem.text for problem in load(text).errors][:2] for text in (wrong_type, misspelt)]
    found.append([problem.text for problem in load(SMALL, selector).errors])

    assert found == [
        ["spec.validations[0].expression: expected string, got number"],
        ['spec.validation: unknown field "spec.validation"'],
        ["spec.paramRef.selector: expected object, got array"],
    ]


def test_duplicate_fields_that_the_reader_knows_of_are_refused() -> None:
    """A key that is there twice is an error in the words of the strict decoder."""
    (document,) = documents(SMALL)
    twice = Document(
        value=document.value,
        name=document.name,
        places=document.places,
        keys=lambda _: (10, 7),
        duplicates=[("spec", "validations", 0, "expression")],
    )

    assert [str(problem) for problem in read([twice]).errors] == [
        (
            'policy.yaml:10:7: spec.validations[0].expression: duplicate field "spec.validations[0].expression"\n'
            "hint: keep one of them"
        )
    ]


def test_names_are_unique_within_a_kind() -> None:
    """A second policy of a name is refused, in whatever version, and told where the first is."""
    second = SMALL.replace("/v1", "/v1beta1")
    loaded = load(SMALL, second, SMALL_BINDING)

    assert [str(problem) for problem in loaded.problems] == [
        (
            'policy.yaml:15:9: metadata.name: Duplicate value: "small"\n'
            "hint: the first ValidatingAdmissionPolicy of this name is at policy.yaml:4: rename one"
        )
    ]
    assert [policy.origin.line for policy in loaded.policies] == [1]


@pytest.mark.parametrize(
    ("binding", "hint"),
    [
        (SMALL_BINDING.replace("policyName: small", "policyName: smal"), "did you mean small?"),
        (
            SMALL_BINDING.replace("policyName: small", "policyName: other"),
            "a ValidatingAdmissionPolicy of this name must be among the documents",
        ),
        (
            SMALL_BINDING.replace("Validating", "Mutating").replace("  validationActions: [Deny]\n", ""),
            "there is a ValidatingAdmissionPolicy of this name: write ValidatingAdmissionPolicyBinding",
        ),
    ],
    ids=["misspelt", "missing", "of the other kind"],
)
def test_binding_needs_its_policy(binding: str, hint: str) -> None:
    """A binding whose policy is not there is an error at policyName."""
    name = load(binding).bindings[0].policy_name

    assert errors(SMALL, binding) == [f'policy.yaml:17:15: spec.policyName: Not found: "{name}"\nhint: {hint}']


def test_policy_without_a_binding_does_nothing() -> None:
    """That is a warning about documents that may be part of something, and an error where there are no others."""
    said = (
        "metadata.name: no ValidatingAdmissionPolicyBinding names this policy, and without one it does nothing\n"
        "hint: add a binding with this name as its policyName"
    )

    draft = f"policy.yaml:4:9: warning: {said}; until then it is judged here as if one denied"
    assert (errors(SMALL), warnings(SMALL)) == ([], [draft])
    assert list(map(str, read(documents(SMALL), complete=True).errors)) == [f"policy.yaml:4:9: {said}"]


@pytest.mark.parametrize("case", CASES["versions"], ids=_name)
def test_versions_that_are_not_converted(case: dict[str, str]) -> None:
    """A rule that leaves out a version of a built-in group gets its objects as they are, and its author a warning."""
    rule, left_out = case["rule"], case.get("unconverted", "")
    text = SMALL.replace('apiGroups: [""], apiVersions: [v1]', rule)
    exact = text.replace("  matchConstraints:\n", "  matchConstraints:\n    matchPolicy: Exact\n")
    column = text.splitlines()[7].index("apiVersions: ") + len("apiVersions: ") + 1
    warning = (
        f"policy.yaml:8:{column}: warning: spec.matchConstraints.resourceRules[0].apiVersions: objects of {left_out} "
        "are not converted: expressions see them as they are sent\n"
        "hint: name that version as well, or write matchPolicy: Exact to leave it out"
    )

    assert warnings(text, SMALL_BINDING) == ([warning] if left_out else [])
    assert warnings(exact, SMALL_BINDING) == []


def test_parameters_that_do_not_fit_are_warnings() -> None:
    """A paramKind without a paramRef, and the reverse, are what the API server takes and nobody means."""
    kind = SMALL.replace("spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n")
    reference = SMALL_BINDING + "  paramRef: {name: a, parameterNotFoundAction: Deny}\n"

    assert (warnings(kind, SMALL_BINDING), warnings(SMALL, reference)) == (
        [
            (
                "policy.yaml:18:3: warning: spec.paramRef: the policy has a paramKind: without a paramRef, "
                "params is null\nhint: name a ConfigMap, or let the policy check `params == null`"
            )
        ],
        [
            (
                "policy.yaml:19:3: warning: spec.paramRef: the policy has no paramKind: the parameters are ignored\n"
                "hint: leave it out, or give the policy at policy.yaml:4 a paramKind"
            )
        ],
    )
    assert errors(kind, reference) == []


def test_other_warnings_change_nothing() -> None:
    """A namespace, and a variable that is declared twice, are taken as the API server takes them."""
    text = SMALL.replace("name: small", "name: small\n  namespace: x").replace(
        "  validations", "  variables: [{name: a, expression: '1'}, {name: a, expression: '2'}]\n  validations"
    )

    assert warnings(text, SMALL_BINDING) == [
        (
            "policy.yaml:5:14: warning: metadata.namespace: Forbidden: not allowed on this type\n"
            "hint: a policy is in no namespace: leave it out"
        ),
        (
            'policy.yaml:10:50: warning: spec.variables[1].name: Duplicate value: "a"\n'
            "hint: only the last variable of a name has an effect: rename one"
        ),
    ]
    assert len(load(text, SMALL_BINDING).policies) == 1


@pytest.mark.parametrize("stored", [False, True], ids=["new", "stored"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_reserved_names(release: Release, *, stored: bool) -> None:
    """Of names that only its own manifests may have, 1.36 warns, and later releases refuse them in new policies."""
    text = SMALL.replace("name: small", "name: small.static.k8s.io")
    binding = SMALL_BINDING.replace("policyName: small", "policyName: small.static.k8s.io")

    loaded = read(documents(f"{text}---\n{binding}"), dialect=Dialect(release, stored=stored))

    refused = release.reserves_static_names and not stored
    value = 'Invalid value: "small.static.k8s.io": ' if refused else ""
    words = (
        f"policy.yaml:4:9: {'' if refused else 'warning: '}metadata.name: {value}"
        'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be '
        "managed via the API\nhint: choose another name"
    )
    assert [str(problem) for problem in loaded.problems] == [words]
    assert [each.name for each in RELEASES if each.reserves_static_names] == ["1.37", "1.38"]


def test_items_of_lists_are_documents() -> None:
    """Lists of the API and of kubectl, one inside of the other; only a list of one kind says it for its items."""
    nested = {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace"}]}
    kind = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}}]}
    named = {"apiVersion": "example.org/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": ["x"]}
    empty = {"apiVersion": "v1", "kind": "List", "items": None}
    value = {"apiVersion": "v1", "kind": "List", "items": [nested, kind, named, empty]}

    loaded = read([Document(value=value, name="a.json", places=lambda path: (len(path), 1))])

    assert [(document.value, document.line) for document in loaded.context] == [
        ({"apiVersion": "v1", "kind": "Namespace"}, 4),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, 4),
        (named, 2),
    ]
    assert loaded.problems == ()


def test_mistake_in_a_list_has_its_place_in_the_file() -> None:
    """The field is that of the item, as in the API server's words; the line is that of the file."""
    item = SMALL.replace("[CREATE]", "[create]").replace("\n", "\n    ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n  - {item}\n"

    assert errors(text) == [
        (
            "policy.yaml:11:27: spec.matchConstraints.resourceRules[0].operations[0]: "
            'Unsupported value: "create": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"\n'
            "hint: did you mean CREATE?"
        )
    ]


@pytest.mark.parametrize("case", CASES["kinds"], ids=_name)
def test_document_of_no_known_kind_is_an_error(case: dict[str, str]) -> None:
    """A policy of a misspelt kind must not be taken for some other object."""
    loaded = load(case["head"])

    assert ([str(problem) for problem in loaded.problems], loaded.context) == ([case["problem"]], ())


@pytest.mark.parametrize(
    "head",
    [
        "apiVersion: v1\nkind: ConfigMap",
        "apiVersion: example.org/v1\nkind: ValidatingAdmissionPolicy",
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration",
    ],
)
def test_other_objects_are_context(head: str) -> None:
    """Parameters, Namespaces, CRDs and all else are handed on as they are."""
    loaded = load(head)

    assert ([document.value for document in loaded.context], loaded.problems) == (
        [document.value for document in documents(head)],
        (),
    )


@pytest.mark.parametrize("case", CASES["annotations"], ids=_name)
def test_annotations_of_this_service(case: dict[str, str]) -> None:
    """One that it does not know, or cannot read, is a warning: it would do nothing in silence."""
    annotation, said = case["annotation"], case.get("warning", "")
    text = SMALL.replace("name: small", f"name: small\n  annotations:\n    {annotation}")

    found = [warning for warning in warnings(text) if "annotations" in warning]
    key = annotation.partition(":")[0]
    place = f"policy.yaml:6:{32 if 'neither' in said else 5}: warning: metadata.annotations.{key}"
    assert found == ([f"{place}: {said}"] if said else [])
