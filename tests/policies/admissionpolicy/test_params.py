"""A binding's parameters are those that kube-apiserver would take, with its words where there are none."""

from __future__ import annotations

import pytest
from support.policies.admissionpolicies import CLASSES, CONFIG_MAPS, binding, config_map, parameters

from policies.admissionpolicy.model import ParamKind, ParamRef
from policies.admissionpolicy.params import (
    ConfigurationError,
    LayeredParameters,
    StaticParameters,
    UnknownParameters,
    as_mutating_policies_see,
    collect,
    scope_of,
)
from policies.admissionpolicy.wanted import WantedParameters
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement

FIVE = config_map("five", labels={"size": "s"}, limit="5")
SIX = config_map("six", labels={"size": "s"}, limit="6")
ELSEWHERE = config_map("elsewhere", "default", limit="8")
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
KNOWN = parameters(SIX, FIVE, ELSEWHERE, HIGH)
SMALL = LabelSelector((SelectorRequirement("size", "In", ("s",)),))
NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


def reference(action: str = "Deny", **fields: object) -> ParamRef:
    """A reference to parameters."""
    return ParamRef(parameter_not_found_action=action, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "ref", "namespace", "found"),
    [
        pytest.param(None, reference(name="five"), "team", (None,), id="no-paramKind"),
        pytest.param(CONFIG_MAPS, None, "team", (None,), id="no-paramRef"),
        pytest.param(CONFIG_MAPS, reference(name="five"), "team", (FIVE,), id="name-in-request-namespace"),
        pytest.param(
            CONFIG_MAPS, reference(name="elsewhere", namespace="default"), "team", (ELSEWHERE,), id="namespace"
        ),
        pytest.param(CONFIG_MAPS, reference(selector=SMALL), "team", (FIVE, SIX), id="selector"),
        pytest.param(CONFIG_MAPS, reference(selector=EVERYTHING), "default", (ELSEWHERE,), id="empty-selector"),
        pytest.param(CONFIG_MAPS, reference("Allow", name="none"), "team", (), id="none-allow"),
        pytest.param(CONFIG_MAPS, reference("Allow", selector=SMALL), "default", (), id="none-selected-allow"),
        pytest.param(CLASSES, reference(name="high"), "team", (HIGH,), id="cluster-scoped"),
        pytest.param(CLASSES, reference(selector=EVERYTHING), "", (HIGH,), id="cluster-scoped-selector"),
    ],
)
def test_parameters_are_found_by_name_or_selector(
    kind: ParamKind | None, ref: ParamRef | None, namespace: str, found: tuple[object, ...]
) -> None:
    """Each way to refer to parameters gives those objects, in the order of their names."""
    assert collect(kind, binding(param_ref=ref), KNOWN, namespace) == found


@pytest.mark.parametrize(
    ("kind", "ref", "namespace", "words"),
    [
        pytest.param(CONFIG_MAPS, reference(name="none"), "team", NOT_FOUND, id="not-found"),
        pytest.param(CONFIG_MAPS, reference(selector=SMALL), "default", NOT_FOUND, id="none-selected"),
        pytest.param(
            CONFIG_MAPS,
            reference(name="five"),
            "",
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
            id="no-namespace",
        ),
        pytest.param(
            CLASSES,
            reference(name="high", namespace="team"),
            "team",
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
            id="namespace-for-cluster-scoped",
        ),
        pytest.param(CONFIG_MAPS, reference(), "team", "one of name or selector must be provided", id="neither"),
        pytest.param(
            ParamKind(api_version="a.example/v1", kind="No"),
            reference(name="x"),
            "team",
            "failed to find resource referenced by paramKind: 'a.example/v1, Kind=No'",
            id="unknown-kind",
        ),
    ],
)
def test_a_wrong_reference_is_a_configuration_error(kind: ParamKind, ref: ParamRef, namespace: str, words: str) -> None:
    """What cannot be followed is refused in the API server's words."""
    with pytest.raises(ConfigurationError) as error:
        collect(kind, binding(param_ref=ref), KNOWN, namespace)
    assert str(error.value) == words


def test_an_unknown_kind_of_the_core_group_is_named_as_go_does() -> None:
    """The empty group leaves its slash."""
    with pytest.raises(ConfigurationError, match=r"^failed to find resource .* '/v1, Kind=No'$"):
        scope_of(ParamKind(api_version="v1", kind="No"), KNOWN)


def test_a_look_up_that_is_still_to_be_made_passes_through() -> None:
    """Who holds the parameters may ask for time: the request says what is needed."""

    class Later(StaticParameters):
        def named(self, kind: ParamKind, namespace: str, name: str) -> None:
            raise UnknownParameters(kind, namespace=namespace, name=name)

    with pytest.raises(UnknownParameters) as asked:
        collect(CONFIG_MAPS, binding(param_ref=reference(name="five")), Later((), KNOWN.scopes), "team")
    assert asked.value.wanted == WantedParameters(kind=CONFIG_MAPS, namespace="team", name="five")
    assert str(asked.value) == "ConfigMap five in namespace team is not known yet"


def test_parameters_in_layers() -> None:
    """The first layer hides objects of the same name in the second, which adds the others and further kinds."""
    ours = config_map("five", labels={"size": "s"}, limit="50")
    four = config_map("four", labels={"size": "s"})
    layered = LayeredParameters(
        StaticParameters((ours, SIX), {CONFIG_MAPS: "Namespaced"}), parameters(FIVE, four, HIGH)
    )

    assert [layered.named(CONFIG_MAPS, "team", name) for name in ("five", "four", "none")] == [ours, four, None]
    assert layered.selected(CONFIG_MAPS, "team", SMALL) == [ours, four, SIX]
    assert (layered.scope(CONFIG_MAPS), layered.scope(CLASSES)) == ("Namespaced", "Cluster")
    assert layered.scope(ParamKind(api_version="v1", kind="No")) is None


def test_mutating_policies_see_no_type_of_built_in_parameters() -> None:
    """A ConfigMap has no kind there, a custom resource has."""
    custom = {"apiVersion": "a.example/v1", "kind": "Limit", "metadata": {"name": "x"}}
    seen = as_mutating_policies_see(FIVE, CONFIG_MAPS)
    assert seen == {"metadata": FIVE["metadata"], "data": FIVE["data"]}
    assert as_mutating_policies_see(custom, ParamKind(api_version="a.example/v1", kind="Limit")) == custom
    assert as_mutating_policies_see(None, CONFIG_MAPS) is None
