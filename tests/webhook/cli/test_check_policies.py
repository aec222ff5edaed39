"""`cks-admission check --policies`: what admission policies in files say of objects, and do to them."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
from support.service.commands import run

_BUILT_IN = "labels, guard, topology, topology-objects, tolerations, sunk, selectors"
_PODS = """resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]"""
_LIMIT = """\
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicy
    metadata: {name: limits}
    spec:
      matchConstraints:
        %s
      validations:
      - expression: "object.spec.containers.all(c, c.?resources.?limits.?memory.hasValue())"
        message: every container needs a memory limit
    ---
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicyBinding
    metadata: {name: limits}
    spec: {policyName: limits, validationActions: [%s]}
    """
_FILES = {
    "pod.yaml": """\
        apiVersion: v1
        kind: Pod
        metadata: {name: train, namespace: team}
        spec:
          containers: [{name: main, image: example.org/train}]
          tolerations: [{operator: Exists}]
        """,
    "deployment.yaml": """\
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: train, namespace: team}
        spec:
          template:
            spec:
              containers: [{name: main, image: example.org/train}]
              tolerations: [{operator: Exists}]
            metadata: {labels: {app: train}}
          selector: {matchLabels: {app: train}}
        """,
    "deny/limits.yaml": _LIMIT % (_PODS, "Deny"),
    "warn/limits.yaml": _LIMIT % (_PODS, "Warn"),
    "audit/limits.yaml": _LIMIT % (_PODS, "Audit"),
    "worded/limits.yaml": (_LIMIT % (_PODS, "Deny")).replace(
        "message: every container needs a memory limit",
        "messageExpression: \"object.spec.containers.map(c, c.name).join(', ') + ': no memory limit'\"",
    ),
    "open/priority.yaml": """\
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {name: priority}
        spec:
          matchConstraints: {$PODS}
          validations:
          - expression: has(object.spec.priority) && object.spec.priority > 10
            message: too low a priority
        ---
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicyBinding
        metadata: {name: priority}
        spec: {policyName: priority, validationActions: [Deny]}
        """.replace("$PODS", _PODS),
    "context/policy.yaml": """\
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {name: images}
        spec:
          paramKind: {apiVersion: example.org/v1, kind: Registry}
          matchConstraints: {$PODS}
          validations:
          - expression: object.spec.containers.all(c, c.image.startsWith(params.spec.prefix))
            messageExpression: "'an image from elsewhere: ask ' + namespaceObject.metadata.annotations['owner']"
        ---
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicyBinding
        metadata: {name: images}
        spec:
          policyName: images
          paramRef: {name: ours, parameterNotFoundAction: Deny}
          validationActions: [Deny]
          matchResources: {namespaceSelector: {matchLabels: {checked: "yes"}}}
        """.replace("$PODS", _PODS),
    "context/cluster.json": """\
        {"apiVersion": "v1", "kind": "List", "items": [
          {"apiVersion": "v1", "kind": "Namespace", "metadata":
           {"name": "team", "labels": {"checked": "yes"}, "annotations": {"owner": "ml"}}},
          {"apiVersion": "example.org/v1", "kind": "Registry", "metadata": {"name": "ours"},
           "spec": {"prefix": "registry.example.com/"}},
          {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "registries.example.org"},
           "spec": {"group": "example.org", "scope": "Cluster", "names": {"kind": "Registry", "plural": "registries"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                                  "schema": {"openAPIV3Schema": {"type": "object"}}}]}}]}
        """,
    "mutate/policy.yaml": """\
        apiVersion: admissionregistration.k8s.io/v1
        kind: MutatingAdmissionPolicy
        metadata: {name: team-label}
        spec:
          matchConstraints: {$PODS}
          failurePolicy: Fail
          reinvocationPolicy: Never
          mutations:
          - patchType: ApplyConfiguration
            applyConfiguration:
              expression: "Object{metadata: Object.metadata{labels: {'team': namespaceObject.metadata.labels['team']}}}"
          - patchType: JSONPatch
            jsonPatch:
              expression: "[JSONPatch{op: 'add', path: '/spec/containers/0/command', value: ['run']}]"
        ---
        apiVersion: admissionregistration.k8s.io/v1
        kind: MutatingAdmissionPolicyBinding
        metadata: {name: team-label}
        spec: {policyName: team-label}
        """.replace("$PODS", _PODS),
    "rights/policy.yaml": """\
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {name: scalers}
        spec:
          matchConstraints: {$PODS}
          validations:
          - expression: authorizer.requestResource.subresource('scale').check('update').allowed()
            message: only who may scale Pods may make them
        ---
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicyBinding
        metadata: {name: scalers}
        spec: {policyName: scalers, validationActions: [Deny]}
        """.replace("$PODS", _PODS),
    "rights/rbac.yaml": """\
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata: {name: scaling}
        rules: [{apiGroups: ["*"], resources: ["*/scale"], verbs: ["*"]}]
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {name: scaling, namespace: team}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scaling}
        subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: scalers}]
        """,
    "wrongs/rbac.yaml": """\
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata: {name: scaling}
        rules: [{apiGroups: ["*"], resources: "*/scale", verbs: ["*"]}]
        """,
    "broken/policy.yaml": (_LIMIT % (_PODS, "Deny, Warn")).replace("resources.?limits", "resources.limits,"),
    "clash/policy.yaml": (_LIMIT % (_PODS, "Deny")).replace(": limits", ": labels"),
    "excepted.yaml": """\
        exceptions:
        - {rules: [limits], reason: the limit comes from elsewhere, until: 2100-01-01, namespaces: [team]}
        """,
    "skipped/limits.yaml": _LIMIT % (_PODS, "Deny"),
    "skipped/exceptions.yaml": """\
        apiVersion: cks-admission.dev/v1
        kind: PolicyException
        metadata: {name: legacy-trainer}
        spec:
          policies: [limits, labels]
          reason: "OPS-1234: moved off by 2100"
          until: "2099-12-31"
          match: {namespaces: [team], kinds: [Pod]}
        """,
    "ended/limits.yaml": _LIMIT % (_PODS, "Deny"),
    "ended/exceptions.yaml": """\
        apiVersion: cks-admission.dev/v1
        kind: PolicyException
        metadata: {name: legacy-trainer}
        spec:
          policies: [limits]
          reason: "OPS-1234: moved off by 2021"
          until: "2020-12-31"
          match: {kinds: [Pod]}
        """,
    "misnamed/limits.yaml": _LIMIT % (_PODS, "Deny"),
    "misnamed/exceptions.yaml": """\
        apiVersion: cks-admission.dev/v1
        kind: PolicyException
        metadata: {name: legacy-trainer}
        spec:
          policies: [limit, gpu]
          reason: OPS-1234
          until: "2099-12-31"
        """,
    "builtin.yaml": """\
        apiVersion: cks-admission.dev/v1
        kind: PolicyException
        metadata: {name: storage-migration}
        spec: {policies: [labels], reason: OPS-7, until: "2099-12-31", match: {users: [storage-*]}}
        """,
    "labelled.yaml": """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: notes, namespace: team, labels: {foo.coreweave.cloud/bar: "true"}}
        """,
    "unknown.yaml": """\
        exceptions:
        - {rules: [limit], reason: a misspelt name, until: 2100-01-01}
        """,
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files above, in the current directory."""
    monkeypatch.chdir(tmp_path)
    for name, text in _FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(dedent(text), encoding="utf-8")


_DENIED = (
    "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: every container needs a memory limit"
)
_WHY = 'c.?resources.?limits.?memory.hasValue() is false (container "main"; c.?resources.?limits.?memory is none)'
_NO_KEY = (
    "policy 'team-label' with binding 'team-label' denied request: expression "
    "'Object{metadata: Object.metadata{labels: {'team': namespaceObject.metadata.labels['team']}}}' "
    "resulted in error: no such key: team"
)


@pytest.mark.parametrize(
    ("arguments", "output", "code"),
    [
        pytest.param(
            "-f pod.yaml --policies deny",
            f"""\
            pod.yaml:1: Pod team/train: refused
              {_DENIED}
                spec.containers[0].resources.limits.memory: {_WHY} (line 5)
            """,
            1,
            id="deny",
        ),
        pytest.param(
            "-f deployment.yaml --policies deny",
            f"""\
            deployment.yaml:1: Deployment team/train: refused
              {_DENIED}
                spec.template.spec.containers[0].resources.limits.memory: {_WHY} (line 7)
            """,
            1,
            id="the-template-of-a-workload",
        ),
        pytest.param(
            "-f pod.yaml --policies warn",
            """\
            pod.yaml:1: Pod team/train: admitted
              Warning: limits: every container needs a memory limit (spec.containers[0].resources.limits.memory) \
(line 5)
            """,
            0,
            id="warn",
        ),
        pytest.param("-f pod.yaml --policies audit", "pod.yaml:1: Pod team/train: admitted\n", 0, id="audit"),
        pytest.param(
            "-f deployment.yaml --policies worded",
            """\
            deployment.yaml:1: Deployment team/train: refused
              ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: main: no memory limit
                spec.template.spec.containers[0].resources.limits.memory (line 7)
            """,
            1,
            id="the-author-explains",
        ),
        pytest.param(
            "-f pod.yaml -f deployment.yaml --policies open",
            """\
            pod.yaml:1: Pod team/train: refused
              ValidatingAdmissionPolicy 'priority' with binding 'priority' denied request: too low a priority
                spec: has(object.spec.priority) is false (line 4)
            deployment.yaml:1: Deployment team/train: admitted
              Warning: priority: too low a priority (spec.template.spec) (unless spec.priority will be set otherwise) \
(line 6)
            2 objects: 1 refused, 1 warned
            """,
            1,
            id="a-field-that-admission-will-fill",
        ),
        pytest.param(
            "-f pod.yaml --policies context",
            """\
            pod.yaml:1: Pod team/train: refused
              ValidatingAdmissionPolicy 'images' with binding 'images' denied request: an image from elsewhere: ask ml
                spec.containers[0].image (line 5)
            """,
            1,
            id="parameters-and-namespaces-beside-the-policies",
        ),
        pytest.param(
            "-f pod.yaml --policies mutate --namespace-labels team=ml --diff",
            """\
            pod.yaml:1: Pod team/train: admitted, changed by 2 patch operations
              --- as received
              +++ as admitted
              @@ -3,6 +3,8 @@
               metadata:
                 name: train
                 namespace: team
              +  labels:
              +    team: ml
               spec:
                 containers:
                 - name: main
              @@ -11,6 +13,8 @@
                   imagePullPolicy: Always
                   terminationMessagePath: /dev/termination-log
                   terminationMessagePolicy: File
              +    command:
              +    - run
                 tolerations:
                 - operator: Exists
                 enableServiceLinks: true
            """,
            0,
            id="mutate",
        ),
        pytest.param(
            "-f pod.yaml --policies mutate",
            f"""\
            pod.yaml:1: Pod team/train: refused
              {_NO_KEY}
            """,
            1,
            id="a-mutation-that-fails",
        ),
        pytest.param(
            "-f pod.yaml --policies rights --as-group scalers",
            "pod.yaml:1: Pod team/train: admitted\n",
            0,
            id="rights-in-files",
        ),
        pytest.param(
            "-f pod.yaml --policies rights/policy.yaml --policies rights/rbac.yaml",
            """\
            pod.yaml:1: Pod team/train: refused
              ValidatingAdmissionPolicy 'scalers' with binding 'scalers' denied request: only who may scale Pods may \
make them
                authorizer.requestResource: authorizer.requestResource.subresource('scale').check('update').allowed() \
is false (authorizer.requestResource.subresource('scale').check('update') is "")
            """,
            1,
            id="no-rights-in-files",
        ),
        pytest.param(
            "-f pod.yaml --policies deny --config excepted.yaml",
            """\
            pod.yaml:1: Pod team/train: admitted
              skipped: limits by exception exceptions[0] until 2100-01-01: the limit comes from elsewhere
            """,
            0,
            id="an-exception-from-a-policy",
        ),
        pytest.param(
            "-f pod.yaml -f deployment.yaml --policies skipped",
            f"""\
            pod.yaml:1: Pod team/train: admitted
              skipped: limits by exception legacy-trainer until 2099-12-31: OPS-1234: moved off by 2100
            deployment.yaml:1: Deployment team/train: refused
              {_DENIED}
                spec.template.spec.containers[0].resources.limits.memory: {_WHY} (line 7)
            2 objects: 1 refused
            """,
            1,
            id="an-exception-for-pods-says-nothing-of-templates",
        ),
        pytest.param(
            "-f labelled.yaml --policies builtin.yaml --as storage-operator",
            """\
            labelled.yaml:1: ConfigMap team/notes: admitted
              skipped: labels by exception storage-migration until 2099-12-31: OPS-7
            """,
            0,
            id="an-exception-from-a-built-in-rule",
        ),
    ],
)
def test_what_policies_say(arguments: str, output: str, code: int) -> None:
    """A policy's words, the place and what decided there, as the author or the explanation has them."""
    result = run("check", *arguments.split())

    assert (result.stdout, result.stderr, result.exit_code) == (dedent(output), "", code)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            "--policies broken",
            """\
            Error: broken/policy.yaml:8:69: spec.validations[0].expression: Syntax error: unexpected `?`: a name is \
missing before it
            object.spec.containers.all(c, c.?resources.limits,.?memory.hasValue())
                                                               ^
            broken/policy.yaml:14:47: spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both \
Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)
            hint: keep Deny alone: what it refuses is told anyway
            """,
            id="all-problems-at-once",
        ),
        pytest.param(
            "--policies clash",
            "Error: policies: 'labels' is the name of a built-in rule; give the policy another one\n",
            id="the-name-of-a-built-in-rule",
        ),
        pytest.param(
            "--policies deny --config unknown.yaml",
            f"Error: exceptions: there is no rule 'limit'; known are {_BUILT_IN}, limits\n",
            id="an-exception-from-nothing",
        ),
        pytest.param(
            "--policies misnamed",
            f"""\
            Error: misnamed/exceptions.yaml:5:14: spec.policies[0]: Not found: "limit"
            hint: did you mean limits?
            misnamed/exceptions.yaml:5:21: spec.policies[1]: Not found: "gpu"
            hint: there are {_BUILT_IN}, limits
            """,
            id="an-exception-document-from-nothing",
        ),
        pytest.param(
            "--policies rights --policies wrongs",
            "Error: wrongs/rbac.yaml:4:40: ClusterRole at rules[0].resources: Expected `array`, got `str`\n",
            id="rights-that-cannot-be-read",
        ),
        pytest.param(
            "--policies pod.yaml",
            "Error: pod.yaml: no ValidatingAdmissionPolicy, MutatingAdmissionPolicy or PolicyException found\n",
            id="no-policies",
        ),
    ],
)
def test_policies_that_cannot_be_used(arguments: str, error: str) -> None:
    """Nothing is judged with a broken set of policies: every problem is told, with its place and a hint."""
    result = run("check", "-f", "pod.yaml", *arguments.split())

    assert (result.stdout, result.stderr, result.exit_code) == ("", dedent(error), 2)


def test_labels_given_win() -> None:
    """Labels of Namespaces on the command line take the place of those in files; a policy then idle is named."""
    result = run("check", "-f", "pod.yaml", "--policies", "context", "--namespace-labels", "checked=no")

    assert (result.stdout, result.stderr, result.exit_code) == (
        "pod.yaml:1: Pod team/train: admitted\n",
        "0 of 1 objects matched images (matchResources of the binding images)\n",
        0,
    )


def test_a_policy_without_a_binding() -> None:
    """A draft is judged as if a binding denied, and it is said that it would do nothing in a cluster."""
    Path("draft").mkdir()
    Path("draft/limits.yaml").write_text(dedent(_LIMIT % (_PODS, "Deny")).partition("---")[0], encoding="utf-8")

    result = run("check", "-f", "deployment.yaml", "--policies", "draft")

    assert (result.stdout.splitlines()[0], result.exit_code) == ("deployment.yaml:1: Deployment team/train: refused", 1)
    problem = "no ValidatingAdmissionPolicyBinding names this policy, and without one it does nothing"
    hint = "add a binding with this name as its policyName; until then it is judged here as if one denied"
    assert result.stderr == f"draft/limits.yaml:3:18: warning: metadata.name: {problem}\nhint: {hint}\n"


def test_a_misspelt_resource() -> None:
    """A policy whose resource does not exist matches nothing, and the one that was meant is named."""
    wrong = dedent(_LIMIT % (_PODS.replace("[pods]", "[pod]"), "Deny"))
    Path("pod").mkdir()
    Path("pod/limits.yaml").write_text(wrong, encoding="utf-8")

    result = run("check", "-f", "pod.yaml", "--policies", "pod")

    assert result.stderr == "limits: 0 of 1 objects matched pod; did you mean pods?\n"


def test_an_exception_that_has_ended() -> None:
    """It lets nothing pass any more: the refusal says so, and a warning says which document it is."""
    result = run("check", "-f", "pod.yaml", "--policies", "ended")

    assert (result.stdout, result.stderr, result.exit_code) == (
        dedent(f"""\
            pod.yaml:1: Pod team/train: refused
              {_DENIED}
                spec.containers[0].resources.limits.memory: {_WHY} (line 5)
              The exception "legacy-trainer" from limits ended on 2020-12-31 (OPS-1234: moved off by 2021).
            """),
        dedent("""\
            ended/exceptions.yaml:7:11: warning: spec.until: ended on 2020-12-31: it lets nothing pass
            hint: delete it, or write a later day
            """),
        1,
    )


def test_an_exception_in_json() -> None:
    """A decision holds the exception that the object passes by."""
    result = run("check", "-f", "pod.yaml", "--policies", "skipped", "-o", "json")

    exception = {"name": "legacy-trainer", "until": "2099-12-31", "reason": "OPS-1234: moved off by 2100"}
    (outcome,) = json.loads(result.stdout)
    assert [(f["level"], f["code"], f["line"], f["column"]) for f in outcome["findings"]] == [("note", "limits", 5, 16)]
    assert outcome["decisions"] == [
        {"rule": "topology", "verdict": "admit"},
        {"rule": "tolerations", "verdict": "admit"},
        {"rule": "labels", "verdict": "admit"},
        {"rule": "topology", "verdict": "admit"},
        {"rule": "tolerations", "verdict": "admit"},
        {"rule": "selectors", "verdict": "admit"},
        {"rule": "limits", "verdict": "excepted", "exception": exception},
    ]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        pytest.param("Allow", "admitted", id="allow"),
        pytest.param(
            "Deny",
            "refused\n  ValidatingAdmissionPolicy 'limited' with binding 'limited' denied request: failed to configure "
            "binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            id="deny",
        ),
    ],
)
def test_parameters_that_are_not_beside_the_policy(action: str, said: str) -> None:
    """A kind of Kubernetes' own is there even if no object of it is; then the binding says what follows."""
    Path("limited.yaml").write_text(
        dedent(f"""\
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {{name: limited}}
        spec:
          paramKind: {{apiVersion: v1, kind: ConfigMap}}
          matchConstraints:
            resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
          validations: [{{expression: "false"}}]
        ---
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicyBinding
        metadata: {{name: limited}}
        spec:
          policyName: limited
          validationActions: [Deny]
          paramRef: {{name: limits, parameterNotFoundAction: {action}}}
        """),
        encoding="utf-8",
    )

    result = run("check", "-f", "pod.yaml", "--policies", "limited.yaml")

    assert result.stdout == f"pod.yaml:1: Pod team/train: {said}\n"


_RECEIVED = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: size}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps, example.org], apiVersions: [v1], operations: [CREATE], resources: [deployments, widgets]}
  validations:
  - {expression: object.spec.replicas <= 5, message: "Ask for at most 5."}
"""
_SENT = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {replicas: {type: integer, default: 9}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}
---
apiVersion: example.org/v1
kind: Widget
metadata: {name: web}
spec: {}
"""


def test_objects_are_judged_with_their_defaults(tmp_path: Path) -> None:
    """A Deployment without replicas has one, and a custom resource what its definition among the objects says."""
    (tmp_path / "size.yaml").write_text(_RECEIVED)
    (tmp_path / "sent.yaml").write_text(_SENT)

    result = run("check", "-f", str(tmp_path / "sent.yaml"), "--policies", str(tmp_path / "size.yaml"), "-o", "json")

    assert {each["kind"]: (each["allowed"], "at most 5" in each["message"]) for each in json.loads(result.stdout)} == {
        "CustomResourceDefinition": (True, False),
        "Deployment": (True, False),
        "Widget": (False, True),
    }
