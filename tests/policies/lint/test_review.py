"""What is found in policies: in tables of them, in the packs, and where something is to be ignored."""

from pathlib import Path

import pytest
import yaml
from support.policies import packs
from support.policies.lintpolicies import DEPLOYMENTS, PODS, Json, binding, policy, reviewed, said
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.model import LINT_IGNORE
from policies.kubernetes.release import named as release_of
from policies.lint.finding import CODES, UnknownCodeError, named
from policies.lint.review import review

_BAD = {"expression": "object.spec.paused == true"}
_IGNORED = "missing-has, no-remedy"


def test_types_are_checked_for_every_kind() -> None:
    """An issue is named once, with all kinds that have it and with what was probably meant."""
    found = reviewed(policy("object.spec.hostNetwrk == true", rules=(DEPLOYMENTS, PODS)))

    assert [(each.id, each.message, each.remedy) for each in found] == [
        (
            "type-error",
            "undefined field 'hostNetwrk', if the object is a Pod or Deployment",
            "did you mean 'hostNetwork'?",
        )
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.containers.all(c, !has(c.resources.limits) || 'cpu' in c.resources.limits)",
        "authorizer.requestResource.check('get').allowed()",
        "'replicas' in object.spec || object.spec['containers'].size() > 0",
        "(object.spec.containers + object.spec.?initContainers.orValue([])).all(c, c.name != 'a')",
        "object.spec.containers.map(c, c.name) + ['a'] != object.spec.containers",
    ],
    ids=["quantities", "authorizer", "object as a map", "two lists", "other types"],
)
def test_what_only_the_type_checker_minds_is_no_finding(expression: str) -> None:
    """Expressions that run well are left alone, though Kubernetes' status warns of them."""
    assert said(policy(expression, rules=(PODS,))) == []


_EVERY = policy("true == request.dryRun", rules=({**PODS, "resources": ["*"]},))
_FEW = {"matchConditions": [{"name": "few", "expression": "has(object.spec.hostname)"}]}
_REMOVAL = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/spec/hostname'}]"}}
_CHANGE: Json = {"matchConstraints": {"resourceRules": [PODS]}, "mutations": [_REMOVAL], "reinvocationPolicy": "Never"}


@pytest.mark.parametrize(
    ("spec", "release", "expected"),
    [
        pytest.param(_CHANGE, "1.37", ["mutations are evaluated for everything that the rules match"], id="change"),
        pytest.param(_CHANGE | _FEW, "1.37", [], id="change-of-few"),
        pytest.param(_EVERY["spec"], "1.37", [], id="newest"),
        pytest.param(_EVERY["spec"], "1.36", ["the policy is evaluated for all resources"], id="all-resources"),
        pytest.param(_EVERY["spec"] | _FEW, "1.36", [], id="few-of-all"),
    ],
)
def test_what_makes_the_api_server_convert_objects(spec: Json, release: str, expected: list[str]) -> None:
    """A mutation without a condition, and in the older release a policy for everything, is told what it costs."""
    kind = "MutatingAdmissionPolicy" if "mutations" in spec else "ValidatingAdmissionPolicy"
    found = said({**_EVERY, "kind": kind, "spec": spec}, release=release_of(release))

    prefix = "this makes kube-apiserver convert the object: "
    assert [text for id_, _, text in found if id_ == "object-conversion"] == [prefix + text for text in expected]


def test_variables_are_checked_for_what_fits_no_kind() -> None:
    """A variable may be for some of the kinds; a condition that fits none is wrong."""
    variables = {"nodes": "object.spec.nodeName", "wrong": "object.spec.nodName"}
    expression = "object.kind != 'Pod' || variables.nodes != variables.wrong"

    found = said(policy(expression, rules=(DEPLOYMENTS, PODS), variables=variables))

    assert [each for each in found if each[0] == "type-error"] == [
        (
            "type-error",
            "spec.variables[1].expression",
            "undefined field 'nodName', if the object is a Pod or Deployment",
        )
    ]


@pytest.mark.parametrize(
    "link",
    [
        "{0} && {0} || {0}",
        "{0} == true ? {0} : {0} == false",
        "has(object.metadata.labels.a) ? {0} : has(object.metadata.labels.b) && {0}",
        "string({0}) + string({0}) == ''",
    ],
)
def test_variables_that_read_one_another(link: str) -> None:
    """A variable that is read again and again by each that follows is looked at some times, and not 2**60."""
    variables = {"v0": "object.metadata.name == 'x'"}
    variables |= {f"v{number + 1}": link.format(f"variables.v{number}") for number in range(60)}

    assert {finding.id for finding in reviewed(policy("variables.v60", variables=variables))} <= {"missing-has"}


def test_findings_can_be_ignored() -> None:
    """The annotation of a document names what is not to be found in it."""
    assert [id_ for id_, _, _ in said(policy(_BAD))] == ["missing-has", "no-remedy"]
    assert said(policy(_BAD, annotations={LINT_IGNORE: _IGNORED})) == []


def test_what_is_ignored_has_to_exist() -> None:
    """A name that is no finding hides nothing, and is one itself."""
    found = reviewed(policy("object.spec.replicas < 5", annotations={LINT_IGNORE: "missing_has"}))

    assert [(each.id, each.path, each.message, each.remedy) for each in found] == [
        (
            "unknown-ignore",
            f"metadata.annotations.{LINT_IGNORE}",
            "there is no finding 'missing_has'",
            "did you mean 'missing-has'?",
        )
    ]


def test_places_are_those_of_the_file() -> None:
    """An issue in an expression stands where its characters do, whatever style the YAML has."""
    text = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]
  validations:
  - expression: >-
      object.spec.replicas > 1 &&
      object.spec.paused == true
    message: the message is long enough
"""
    files = documents(text, "p.yaml")

    found = [each for each in review(read(files), files) if each.id != "doubtful"]

    assert [(each.file, each.line, each.column, each.excerpt) for each in found] == [
        ("p.yaml", 11, 7, ("object.spec.replicas > 1 && object.spec.paused == true", "                            ^"))
    ]


@pytest.mark.parametrize("pack", packs.shipped(), ids=lambda pack: pack.name)
def test_shipped_policies_are_clean(pack: packs.PackPolicy) -> None:
    """Nothing is found in the packs."""
    files = documents((pack.folder / "policy.yaml").read_text(encoding="utf-8"))

    assert review(read(files), files) == ()


def test_every_finding_has_a_meaning() -> None:
    """Codes count up, names are words with hyphens, and each says what it means."""
    names = [meaning.name for meaning in CODES.values()]

    assert list(CODES) == [f"CKS{101 + index}" for index in range(len(CODES))]
    assert [name for name in names if name != name.lower() or " " in name or names.count(name) > 1] == []
    assert all(meaning.text for meaning in CODES.values())


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("CKS102", {"CKS102"}),
        ("cks102", {"CKS102"}),
        ("missing-has", {"CKS102"}),
        ("CKS10", {f"CKS10{digit}" for digit in range(1, 10)}),
        ("CKS", set(CODES)),
    ],
)
def test_codes_are_named(text: str, codes: set[str]) -> None:
    """A code, the beginning of codes and a name stand for codes."""
    assert named(text) == codes


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("mising-has", "mising-has: there is no such code; did you mean missing-has?"),
        ("CKS191", "CKS191: there is no such code; did you mean CKS1"),
        ("", ": there is no such code"),
    ],
)
def test_unknown_codes_are_refused(text: str, error: str) -> None:
    """What is no code is said, with the nearest name."""
    with pytest.raises(UnknownCodeError) as refused:
        named(text)
    assert str(refused.value).startswith(error)


_GROUPS = yaml.safe_load(Path(__file__).with_name("findings.yaml").read_text(encoding="utf-8"))
_CASES = [
    pytest.param(case, id=f"{group['promise']} {case.pop('name', '')}") for group in _GROUPS for case in group["cases"]
]


def _rules(changes: list[Json]) -> list[Json]:
    return [{**DEPLOYMENTS, **change} for change in changes]


@pytest.mark.parametrize("case", _CASES)
def test_findings(case: Json) -> None:
    """What lint says of a policy is its promise, and nothing else."""
    fields = dict(case)
    validations = fields.pop("validations", [fields.pop("expression", "object.metadata.name != 'a'")])
    expected, beside = fields.pop("findings", []), fields.pop("beside", [])
    if "bound" in fields:
        beside = [binding(matchResources={"resourceRules": _rules(fields.pop("bound"))})]
    if "excluded" in fields:
        fields["constraints"] = {"excludeResourceRules": _rules(fields.pop("excluded"))}
    rules = tuple(_rules(fields.pop("rules", [{}])))

    found = said(policy(*validations, rules=rules, **fields), *beside)

    assert [f"{id_}: {path}: {text}" for id_, path, text in found] == expected


_LIMITS = "object.spec.containers.all(c, {})"


def _quantities(expression: str, **more: object) -> list[tuple[str, str]]:
    findings = reviewed(policy(expression, **{"rules": (PODS,), **more}))  # type: ignore[arg-type]
    return [(each.message.partition(" is a quantity")[0], each.remedy) for each in findings if "quantity-" in each.id]


_CPU, _KEY, _MEMORY = "c.resources.limits.cpu", "c.resources.limits['cpu']", "c.resources.limits.memory"
_REQUEST, _GPU = "c.resources.requests.cpu", 'c.?resources.limits[?"nvidia.com/gpu"].orValue({})'
_TEXT = _GPU.format("'0'")


@pytest.mark.parametrize(
    ("expression", "found", "remedy"),
    [
        (f"{_GPU.format(0)} <= 4", _GPU.format(0), f"quantity({_TEXT}).compareTo(quantity('4')) <= 0"),
        (f"2 > {_CPU}", _CPU, f"quantity({_CPU}).compareTo(quantity('2')) < 0"),
        (f"{_KEY} == 2.5", _KEY, f"quantity({_KEY}).compareTo(quantity('2.5')) == 0"),
        (f"{_MEMORY} < '2Gi'", _MEMORY, f"quantity({_MEMORY}).compareTo(quantity('2Gi')) < 0"),
        (f"{_CPU} >= {_REQUEST}", _CPU, f"quantity({_CPU}).compareTo(quantity({_REQUEST})) >= 0"),
        (f"{_CPU} != size(c.name)", _CPU, f"quantity({_CPU}).compareTo(quantity(string(size(c.name)))) != 0"),
    ],
)
def test_wrong_comparisons_and_what_works(expression: str, found: str, remedy: str) -> None:
    """The quantity is named, with the comparison to write."""
    assert _quantities(_LIMITS.format(expression)) == [(found, f"write {remedy}")]


def test_quantities_behind_variables() -> None:
    """A variable that is a quantity, or a map of them, is one where it is used, for each kind once."""
    variables = {"limits": "object.spec.?overhead", "cpu": "object.spec.overhead.cpu"}
    expression = "variables.cpu <= 2 && variables.limits.orValue({}).cpu <= 3"

    assert [text for text, _ in _quantities(expression, variables=variables)] == [
        "variables.cpu",
        "variables.limits.orValue({}).cpu",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        _LIMITS.format("quantity(c.?resources.limits[?'cpu'].orValue('0')).compareTo(quantity('2')) <= 0"),
        _LIMITS.format("c.resources.limits.cpu == '2'"),
        _LIMITS.format("c.resources.limits.size() <= 2"),
        "object.kind != 'Deployment' || object.spec.replicas <= 5",
    ],
    ids=["compared as quantities", "the same text", "how many", "another field"],
)
def test_right_comparisons_are_left_alone(expression: str) -> None:
    """What works is no finding."""
    assert _quantities(expression, rules=(PODS, DEPLOYMENTS)) == []
