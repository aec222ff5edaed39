"""`cks-admission test`: suites run offline, what fails shown, and all that cannot be read."""

from pathlib import Path
from textwrap import dedent

import pytest
from support.service.commands import run

_SHIPPED = [Path(__file__).parents[3] / "policies" / name for name in ("examples", "packs")]
_POLICY = """\
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicy
    metadata: {name: size}
    spec:
      matchConstraints:
        resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
      validations: [{expression: "object.spec.replicas <= 5", message: at most 5 replicas}]
    ---
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicyBinding
    metadata: {name: size}
    spec: {policyName: size, validationActions: [Deny]}
    """
_SUITE = """\
    name: size
    policies: [policy.yaml]
    objects:
      web: {file: web.yaml}
    cases:
      - name: small
        object: web
        expect: allowed
      - name: too big
        object: web
        patch: {spec: {replicas: 6}}
        expect: allowed
    """
_WEB = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1}}\n"
_MUTATING = """\
    apiVersion: admissionregistration.k8s.io/v1
    kind: MutatingAdmissionPolicy
    metadata: {name: change}
    spec:
      matchConstraints:
        resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
      reinvocationPolicy: Never
      failurePolicy: Fail
      mutations:
        - patchType: ApplyConfiguration
          applyConfiguration: {expression: "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"}
    ---
    apiVersion: admissionregistration.k8s.io/v1
    kind: MutatingAdmissionPolicyBinding
    metadata: {name: change}
    spec: {policyName: change}
    """
_CHANGED = """    name: change
    policies: [change.yaml, policy.yaml]
    objects:
      web: {file: web.yaml}
    cases:
      - {name: as expected, object: web, expect: allowed, patched: {spec: {replicas: 2}}}
      - {name: something else, object: web, expect: allowed, patched: {metadata: {labels: {a: b}}, spec: {replicas: 3}}}
      - {name: a change that is not expected, object: web, expect: allowed}
      - name: judged after the change
        object: web
        patch: {spec: {replicas: 5}}
        expect: denied
        messages: [at most 5 replicas]
      - name: it cannot be changed
        object: web
        patch: {spec: {replicas: many}}
        expect: denied
        messages:
          - >-
            expression 'Object{spec: Object.spec{replicas: object.spec.replicas + 1}}' resulted in error:
            no such overload
    """


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite with a case that fails, in the current directory."""
    for name, text in (("policy.yaml", _POLICY), ("suite.yaml", _SUITE), ("web.yaml", _WEB)):
        (tmp_path / name).write_text(dedent(text))
    monkeypatch.chdir(tmp_path)


def test_the_shipped_suites_pass() -> None:
    """Every suite of the packs and examples is found, and passes."""
    result = run("test", *map(str, _SHIPPED))

    lines = result.stdout.splitlines()
    found = sorted(str(path) for folder in _SHIPPED for path in folder.rglob("suite.yaml"))
    assert [line.partition(":")[0] for line in lines[:-1]] == found
    assert lines[-1].endswith(f" cases passed in {len(lines) - 1} suites")
    assert (result.stderr, result.exit_code) == ("", 0)


def test_a_failing_case_is_shown_with_what_differs() -> None:
    """The case's place and name, both outcomes as a diff, and 1 for the exit code."""
    result = run("test", ".")

    assert result.stdout == dedent("""\
        suite.yaml: size: 1 of 2 cases passed
          suite.yaml:9: too big
            --- expected
            +++ found
            -verdict: allowed
            +verdict: denied
            +message: at most 5 replicas
        1 of 2 cases passed in 1 suite
        """)
    assert (result.stderr, result.exit_code) == ("", 1)


def test_an_object_that_comes_out_otherwise_is_shown(tmp_path: Path) -> None:
    """What mutating policies make of an object is a diff of YAML; validating policies judge what it became."""
    (tmp_path / "change.yaml").write_text(dedent(_MUTATING))
    (tmp_path / "suite.yaml").write_text(dedent(_CHANGED))

    result = run("test", "suite.yaml", "--junit", "out.xml")

    assert result.stdout == dedent("""\
        suite.yaml: change: 3 of 5 cases passed
          suite.yaml:7: something else
            --- expected object
            +++ found object
            @@ -2,10 +2,8 @@
             kind: Deployment
             metadata:
               name: web
            -  labels:
            -    a: b
             spec:
            -  replicas: 3
            +  replicas: 2
               selector: null
               strategy:
                 rollingUpdate:
          suite.yaml:8: a change that is not expected
            --- expected object
            +++ found object
            @@ -3,7 +3,7 @@
             metadata:
               name: web
             spec:
            -  replicas: 1
            +  replicas: 2
               selector: null
               strategy:
                 rollingUpdate:
        3 of 5 cases passed in 1 suite
        """)
    assert (tmp_path / "out.xml").read_text().count('<failure message="the objects differ" type="case">') == 2


def test_rights_beside_a_policy_answer_its_checks(tmp_path: Path) -> None:
    """Checks of authorizer are answered from RBAC objects among the policies' files."""
    (tmp_path / "policy.yaml").write_text(
        dedent(_POLICY).replace("object.spec.replicas <= 5", "authorizer.requestResource.check('scale').allowed()")
    )
    (tmp_path / "rbac.yaml").write_text(
        dedent("""\
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRole
            metadata: {name: scaling}
            rules: [{apiGroups: [apps], resources: [deployments], verbs: [scale]}]
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRoleBinding
            metadata: {name: scaling}
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scaling}
            subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
            """)
    )
    (tmp_path / "suite.yaml").write_text(
        dedent("""\
            name: rights
            policies: [policy.yaml, rbac.yaml]
            objects: {web: {file: web.yaml}}
            cases:
              - {name: alice, object: web, expect: denied, messages: [at most 5 replicas]}
              - {name: bob, object: web, user: {name: bob}, expect: allowed}
            """)
    )

    assert run("test", ".").stdout == ("suite.yaml: rights: 2 of 2 cases passed\n2 of 2 cases passed in 1 suite\n")


def test_a_suite_is_run_once(tmp_path: Path) -> None:
    """A suite of another name is found, and one that two paths lead to counts once."""
    (tmp_path / "suite.yaml").rename("size.suite.yaml")

    result = run("test", ".", "size.suite.yaml")

    assert result.stdout.splitlines()[-1] == "1 of 2 cases passed in 1 suite"


def test_junit_holds_every_case(tmp_path: Path) -> None:
    """--junit writes a testsuite with a testcase per case, and the diff of what failed."""
    result = run("test", "suite.yaml", "--junit", "out.xml")

    assert result.exit_code == 1
    assert (tmp_path / "out.xml").read_text() == dedent("""\
        <?xml version='1.0' encoding='utf-8'?>
        <testsuites>
          <testsuite name="size" file="suite.yaml" tests="2" failures="1" errors="0">
            <testcase classname="size" name="small" />
            <testcase classname="size" name="too big">
              <failure message="expected allowed, found denied" type="case">suite.yaml:9: expected allowed, found denied
        --- expected
        +++ found
        -verdict: allowed
        +verdict: denied
        +message: at most 5 replicas</failure>
            </testcase>
          </testsuite>
        </testsuites>
        """)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("suite.yaml", None, ".: no suites found"),
        ("policy.yaml", None, "policy.yaml: cannot be read: No such file or directory"),
        ("policy.yaml", "a: [", "policy.yaml:2:1: not valid YAML: did not find expected node content"),
        (
            "policy.yaml",
            _WEB,
            "suite.yaml: there is no ValidatingAdmissionPolicy or MutatingAdmissionPolicy in policy.yaml",
        ),
        (
            "suite.yaml",
            _SUITE.replace("too big", "small"),
            "suite.yaml:5: cases: 'small' is the name of more than one case",
        ),
        (
            "suite.yaml",
            _SUITE + "params: {size: {a: b}}\n",
            "suite.yaml: params: the policies' files hold no ConfigMap 'size'",
        ),
        ("suite.yaml", "a: 1\n---\nb: 2\n", "suite.yaml: holds 2 documents; one is needed"),
        (
            "web.yaml",
            None,
            "suite.yaml:4: objects.web.file: web.yaml: cannot be read: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_read_is_said(name: str, text: str | None, error: str, tmp_path: Path) -> None:
    """Nothing is run then: the problem is named with its file, and the exit code is 2."""
    (tmp_path / name).unlink()
    if text is not None:
        (tmp_path / name).write_text(dedent(text))

    result = run("test", ".")

    assert (result.stderr, result.stdout, result.exit_code) == (f"Error: {error}\n", "", 2)


def test_all_problems_are_listed() -> None:
    """A problem of one suite does not hide that of another."""
    result = run("test", "no.yaml", "nor.yaml", "suite.yaml")

    reason = "cannot be read: No such file or directory"
    assert (result.stderr, result.stdout) == (f"Error: no.yaml: {reason}\nnor.yaml: {reason}\n", "")


def test_exceptions_beside_policies_are_warned_about_when_they_end() -> None:
    """Suites judge policies without the exceptions from them; one that has ended is told on stderr, once."""
    exception = """\
        ---
        apiVersion: cks-admission.dev/v1
        kind: PolicyException
        metadata: {name: big}
        spec: {policies: [size], reason: OPS-1, until: "2020-12-31"}
        """
    Path("policy.yaml").write_text(dedent(_POLICY) + dedent(exception), encoding="utf-8")
    Path("other.suite.yaml").write_text(dedent(_SUITE), encoding="utf-8")
    result = run("test", ".")

    assert (result.stdout.splitlines()[-1], result.stderr, result.exit_code) == (
        "2 of 4 cases passed in 2 suites",
        (
            "policy.yaml:17:49: warning: spec.until: ended on 2020-12-31: it lets nothing pass\n"
            "hint: delete it, or write a later day\n"
        ),
        1,
    )
