"""The cases that compare our mutations with the API server's: an object, and the expressions that change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.manifests import Manifest

GROUP = "merge.example.test"
SAME, VARIES, LENIENT = "same", "varies", "lenient"
"""What is compared: all; of an error only that there is one, for its text changes; all, but ours does what they refuse.

The last is for what a later release takes.
"""


@dataclass(frozen=True)
class Mutation:
    """A case: what is created, and the expressions of the policy that changes it, in their order."""

    name: str
    object: str
    expressions: tuple[str, ...]
    compared: str = SAME


def _of(object_name: str, **expressions: str | tuple[str, ...]) -> list[Mutation]:
    return [
        Mutation(name.replace("_", "-"), object_name, (text,) if isinstance(text, str) else text)
        for name, text in expressions.items()
    ]


def _pod_spec(text: str) -> str:
    return f"Object{{spec: Object.spec{{{text}}}}}"


def _containers(text: str) -> str:
    return _pod_spec(f"containers: [{text}]")


_CONTAINER = "Object.spec.containers"
_ORDERS = ("ba", "xa", "axb", "ecax", "bxdya", "xyz", "edcba", "aexd", "cabx", "exd", "xbyd", "dxb", "cxy", "aebd")

CASES: tuple[Mutation, ...] = (
    *_of(
        "pod",
        labels_new='Object{metadata: Object.metadata{labels: {"added": "yes", "app": "other"}}}',
        annotations_from_nothing='Object{metadata: Object.metadata{annotations: {"a/b": "c"}}}',
        labels_as_object="Object{metadata: Object.metadata{labels: Object.metadata.labels{added: 'yes'}}}",
        scalar=_pod_spec("priorityClassName: 'x', terminationGracePeriodSeconds: 5").replace(
            "priorityClassName: 'x', ", ""
        ),
        boolean=_pod_spec("hostNetwork: false, enableServiceLinks: false"),
        container_by_key=_containers(f'{_CONTAINER}{{name: "main", image: "example.test/other:2"}}'),
        container_new=_containers(f'{_CONTAINER}{{name: "side", image: "example.test/side:1"}}'),
        container_new_first=_containers(
            f'{_CONTAINER}{{name: "side", image: "s"}}, {_CONTAINER}{{name: "main", image: "m"}}'
        ),
        containers_other_order=_containers(
            f'{_CONTAINER}{{name: "third"}}, {_CONTAINER}{{name: "new", image: "n"}}, {_CONTAINER}{{name: "main"}}'
        ),
        all_containers=(
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
            f'{_CONTAINER}{{name: c.name, imagePullPolicy: "Always"}})}}}}'
        ),
        environment=_containers(
            f'{_CONTAINER}{{name: "main", env: [{_CONTAINER}.env{{name: "B", value: "2"}}, '
            f'{_CONTAINER}.env{{name: "A", value: "changed"}}]}}'
        ),
        ports_with_default_key=_containers(
            f'{_CONTAINER}{{name: "main", ports: [{_CONTAINER}.ports{{containerPort: 80, name: "web"}}]}}'
        ),
        ports_with_both_keys=_containers(
            f'{_CONTAINER}{{name: "main", ports: [{_CONTAINER}.ports{{containerPort: 80, protocol: "UDP"}}]}}'
        ),
        resources=_containers(
            f'{_CONTAINER}{{name: "main", resources: {_CONTAINER}.resources{{'
            'limits: {"memory": "1024Mi", "cpu": "2000m"}, requests: {"cpu": "1"}}}'
        ),
        resources_number=_containers(
            f'{_CONTAINER}{{name: "main", resources: {_CONTAINER}.resources{{limits: {{"cpu": 2}}}}}}'
        ),
        resources_boolean=_containers(
            f'{_CONTAINER}{{name: "main", resources: {_CONTAINER}.resources{{limits: {{"cpu": true}}}}}}'
        ),
        volumes=_pod_spec('volumes: [Object.spec.volumes{name: "scratch", emptyDir: Object.spec.volumes.emptyDir{}}]'),
        finalizers_set='Object{metadata: Object.metadata{finalizers: ["example.test/b", "example.test/a"]}}',
        security_context=_pod_spec(
            "securityContext: Object.spec.securityContext{runAsNonRoot: true, "
            "seccompProfile: Object.spec.securityContext.seccompProfile{type: 'RuntimeDefault'}}"
        ),
        empty="Object{}",
        empty_map="Object{metadata: Object.metadata{labels: {}}}",
        empty_object="Object{spec: Object.spec{affinity: Object.spec.affinity{}}}",
        empty_list=_pod_spec("volumes: []"),
        nothing=_pod_spec("?restartPolicy: optional.none()"),
        optional_as_value=_pod_spec("terminationGracePeriodSeconds: optional.none()"),
        optional_with_value=_pod_spec("terminationGracePeriodSeconds: optional.of(7)"),
        null=_pod_spec("terminationGracePeriodSeconds: null"),
        null_text=_pod_spec("schedulerName: null"),
        null_map=_pod_spec("securityContext: null"),
        null_boolean=_pod_spec("hostNetwork: null"),
        kind_is_kept='Object{apiVersion: "v2", kind: "Other", metadata: Object.metadata{labels: {"a": "b"}}}',
        atomic_list=_pod_spec('tolerations: [Object.spec.tolerations{key: "a"}]'),
        atomic_map=_pod_spec('nodeSelector: {"a": "b"}'),
        atomic_inside=_containers(f'{_CONTAINER}{{name: "main", command: ["true"]}}'),
        atomic_struct=_containers(
            f'{_CONTAINER}{{name: "main", env: [{_CONTAINER}.env{{name: "C", valueFrom: {_CONTAINER}.env.valueFrom{{'
            f'fieldRef: {_CONTAINER}.env.valueFrom.fieldRef{{fieldPath: "metadata.name"}}}}}}]}}'
        ),
        atomic_empty=_pod_spec("tolerations: []"),
        wrong_type_name="Object{spec: Object.status{hostNetwork: true}}",
        wrong_type_name_in_list=_containers('Object.spec.containers.item{name: "main"}'),
        unknown_field=_pod_spec("hostNetwrok: true"),
        unknown_field_in_item=_containers(f'{_CONTAINER}{{name: "main", imag: "a"}}'),
        text_for_number=_pod_spec('terminationGracePeriodSeconds: "5"'),
        text_for_boolean=_pod_spec('hostNetwork: "yes"'),
        number_for_text=_pod_spec("schedulerName: 3"),
        boolean_for_text=_pod_spec("schedulerName: true"),
        double_for_text=_pod_spec("schedulerName: 1.5"),
        list_for_text=_pod_spec('schedulerName: ["a", "b"]'),
        map_for_text=_pod_spec('schedulerName: {"a": "b"}'),
        text_for_map=_pod_spec('securityContext: "a"'),
        list_for_map=_pod_spec('securityContext: ["a"]'),
        text_for_list=_pod_spec('containers: "a"'),
        map_for_list=_pod_spec('containers: {"a": "b"}'),
        map_for_number=_pod_spec('terminationGracePeriodSeconds: {"a": "b"}'),
        list_for_boolean=_pod_spec("hostNetwork: [1, 2]"),
        unsigned_for_number=_pod_spec("terminationGracePeriodSeconds: 5u"),
        double_for_number=_pod_spec("terminationGracePeriodSeconds: 5.0"),
        fraction_for_number=_pod_spec("terminationGracePeriodSeconds: 5.5"),
        too_large_number=_pod_spec(
            "securityContext: Object.spec.securityContext{runAsUser: 7}, priority: 3000000000"
        ).replace("priority", "activeDeadlineSeconds"),
        bytes_for_text=_pod_spec("schedulerName: b'ab'"),
        duration_for_text=_pod_spec("schedulerName: duration('1h')"),
        timestamp_for_text=_pod_spec("schedulerName: timestamp('2026-01-02T03:04:05Z')"),
        map_literal_in_list=_pod_spec('containers: [{"name": "side", "image": "a"}]'),
        map_literal_in_map='Object{metadata: Object.metadata{labels: {"a": {"b": "c"}}}}',
        map_of_the_object_in_list=_pod_spec("containers: [object.spec.containers[1]]"),
        labels_of_the_object="Object{metadata: Object.metadata{annotations: object.metadata.labels}}",
        joined_lists="Object{metadata: Object.metadata{finalizers: ['example.test/a'] + ['example.test/c']}}",
        map_with_number_keys="Object{metadata: Object.metadata{labels: {1: 'a'}}}",
        item_without_key=_containers(f'{_CONTAINER}{{image: "a"}}'),
        items_with_same_key=_containers(f'{_CONTAINER}{{name: "a"}}, {_CONTAINER}{{name: "a"}}'),
        set_with_same_items='Object{metadata: Object.metadata{finalizers: ["example.test/a", "example.test/a"]}}',
        item_is_text=_containers('"main"'),
        two_mutations=(
            'Object{metadata: Object.metadata{labels: {"one": "1"}}}',
            'Object{metadata: Object.metadata{labels: {"two": object.metadata.labels.one + "2"}}}',
            '[JSONPatch{op: "add", path: "/metadata/labels/three", value: object.metadata.labels.two + "3"}]',
        ),
        empty_map_is_gone=(
            '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]',
            '[JSONPatch{op: "add", path: "/metadata/annotations/a", value: "b"}]',
        ),
        empty_map_within_a_mutation=(
            '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}, '
            'JSONPatch{op: "add", path: "/metadata/annotations/a", value: "b"}]'
        ),
        empty_limits_are_gone=(
            '[JSONPatch{op: "add", path: "/spec/containers/1/resources", value: {"limits": {}}}]',
            '[JSONPatch{op: "add", path: "/spec/containers/1/resources/limits/cpu", value: "1"}]',
        ),
        empty_list_is_gone=(
            '[JSONPatch{op: "add", path: "/spec/hostAliases", value: []}]',
            '[JSONPatch{op: "add", path: "/spec/hostAliases/-", value: Object.spec.hostAliases{ip: "10.0.0.1"}}]',
        ),
        empty_merged_map_is_gone=(
            "Object{metadata: Object.metadata{annotations: {}}}",
            '[JSONPatch{op: "add", path: "/metadata/annotations/a", value: "b"}]',
        ),
        empty_struct_stays=(
            '[JSONPatch{op: "add", path: "/spec/affinity", value: {}}]',
            '[JSONPatch{op: "add", path: "/spec/affinity/nodeAffinity", value: {}}]',
        ),
        defaults_of_what_is_new=(
            '[JSONPatch{op: "add", path: "/spec/containers/-", value: {"name": "new", "image": "a"}}]',
            'Object{metadata: Object.metadata{labels: {"policy": object.spec.containers[2].imagePullPolicy}}}',
        ),
        quantities_of_what_is_new=(
            '[JSONPatch{op: "add", path: "/spec/containers/1/resources", value: {"limits": {"cpu": 0.5}}}]',
            'Object{metadata: Object.metadata{labels: {"cpu": object.spec.containers[1].resources.requests.cpu}}}',
        ),
        patch_add='[JSONPatch{op: "add", path: "/metadata/labels/added", value: "yes"}]',
        patch_add_map='[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}]',
        patch_add_object=(
            '[JSONPatch{op: "add", path: "/spec/tolerations/-", '
            'value: Object.spec.tolerations{key: "example.test/a", operator: "Exists"}}]'
        ),
        patch_add_first='[JSONPatch{op: "add", path: "/spec/containers/0", value: {"name": "first", "image": "f"}}]',
        patch_add_from_end='[JSONPatch{op: "add", path: "/spec/containers/-1", value: {"name": "l", "image": "f"}}]',
        patch_add_too_far='[JSONPatch{op: "add", path: "/spec/containers/9", value: {"name": "l", "image": "f"}}]',
        patch_add_no_index='[JSONPatch{op: "add", path: "/spec/containers/x", value: {"name": "l", "image": "f"}}]',
        patch_add_without_value='[JSONPatch{op: "add", path: "/metadata/labels/added"}]',
        patch_add_parent_missing='[JSONPatch{op: "add", path: "/metadata/annotations/a", value: "b"}]',
        patch_escaped_key='[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "c"}]',
        patch_remove='[JSONPatch{op: "remove", path: "/metadata/labels/app"}]',
        patch_remove_missing='[JSONPatch{op: "remove", path: "/metadata/labels/none"}]',
        patch_remove_last='[JSONPatch{op: "remove", path: "/spec/containers/-1"}]',
        patch_remove_too_far='[JSONPatch{op: "remove", path: "/spec/containers/7"}]',
        patch_replace='[JSONPatch{op: "replace", path: "/spec/containers/0/image", value: "example.test/r:1"}]',
        patch_replace_missing='[JSONPatch{op: "replace", path: "/metadata/labels/none", value: "there"}]',
        patch_replace_missing_parent='[JSONPatch{op: "replace", path: "/spec/none/none", value: "there"}]',
        patch_replace_no_index='[JSONPatch{op: "replace", path: "/spec/containers/-", value: "there"}]',
        patch_move='[JSONPatch{op: "move", from: "/metadata/labels/app", path: "/metadata/labels/moved"}]',
        patch_move_missing='[JSONPatch{op: "move", from: "/metadata/labels/none", path: "/metadata/labels/moved"}]',
        patch_move_without_from='[JSONPatch{op: "move", path: "/metadata/labels/moved"}]',
        patch_copy='[JSONPatch{op: "copy", from: "/metadata/labels/app", path: "/metadata/labels/copied"}]',
        patch_copy_missing='[JSONPatch{op: "copy", from: "/metadata/labels/none", path: "/metadata/labels/copied"}]',
        patch_copy_parent_missing='[JSONPatch{op: "copy", from: "/spec/x/y", path: "/metadata/labels/copied"}]',
        patch_test_true=(
            '[JSONPatch{op: "test", path: "/metadata/labels/app", value: "main"}, '
            'JSONPatch{op: "add", path: "/metadata/labels/tested", value: "yes"}]'
        ),
        patch_test_false=(
            '[JSONPatch{op: "add", path: "/metadata/labels/tested", value: "yes"}, '
            'JSONPatch{op: "test", path: "/metadata/labels/app", value: "other"}]'
        ),
        patch_test_missing='[JSONPatch{op: "test", path: "/spec/none/none", value: "other"}]',
        patch_test_null_for_missing=(
            '[JSONPatch{op: "test", path: "/metadata/annotations", value: null}, '
            'JSONPatch{op: "add", path: "/metadata/labels/tested", value: "yes"}]'
        ),
        patch_test_nothing_for_missing=(
            '[JSONPatch{op: "test", path: "/metadata/annotations"}, '
            'JSONPatch{op: "add", path: "/metadata/labels/tested", value: "yes"}]'
        ),
        patch_test_number=(
            '[JSONPatch{op: "test", path: "/spec/containers/0/ports/0/containerPort", value: 80.0}, '
            'JSONPatch{op: "add", path: "/metadata/labels/tested", value: "yes"}]'
        ),
        patch_test_map=(
            '[JSONPatch{op: "test", path: "/spec/containers/0/env", value: [{"value": "1", "name": "A"}]}, '
            'JSONPatch{op: "add", path: "/metadata/labels/tested", value: "yes"}]'
        ),
        patch_unknown_operation='[JSONPatch{op: "set", path: "/metadata/labels/a", value: "b"}]',
        patch_no_operation='[JSONPatch{path: "/metadata/labels/a", value: "b"}]',
        patch_no_slash='[JSONPatch{op: "add", path: "x", value: "b"}]',
        patch_no_path='[JSONPatch{op: "add", value: "b"}]',
        patch_unknown_field='[JSONPatch{op: "add", path: "/spec/containers/0/imag", value: "b"}]',
        patch_unknown_fields=(
            '[JSONPatch{op: "add", path: "/spec/zone", value: "b"}, '
            'JSONPatch{op: "add", path: "/spec/containers/1/imag", value: "b"}]'
        ),
        patch_number_for_text='[JSONPatch{op: "add", path: "/spec/containers/0/image", value: 3}]',
        patch_text_for_number='[JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: "3"}]',
        patch_text_for_boolean='[JSONPatch{op: "add", path: "/spec/hostNetwork", value: "3"}]',
        patch_fraction_for_number='[JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 1.5}]',
        patch_label_number='[JSONPatch{op: "add", path: "/metadata/labels/number", value: 3}]',
        patch_list_for_map='[JSONPatch{op: "add", path: "/metadata/annotations", value: ["a"]}]',
        patch_text_for_struct='[JSONPatch{op: "add", path: "/spec/securityContext", value: "a"}]',
        patch_text_for_list='[JSONPatch{op: "replace", path: "/spec/containers", value: "a"}]',
        patch_integer_too_large='[JSONPatch{op: "add", path: "/spec/priority", value: 3000000000}]',
        patch_integer_beyond_doubles=(
            '[JSONPatch{op: "add", path: "/spec/activeDeadlineSeconds", value: 9007199254740993}]'
        ),
        patch_null_removes='[JSONPatch{op: "replace", path: "/spec/containers/0/env", value: null}]',
        patch_null_label='[JSONPatch{op: "add", path: "/metadata/labels/empty", value: null}]',
        patch_unsigned='[JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 9u}]',
        patch_duration='[JSONPatch{op: "add", path: "/metadata/labels/d", value: duration("90m")}]',
        patch_timestamp=(
            '[JSONPatch{op: "add", path: "/metadata/annotations", value: {"t": timestamp("2026-01-02T03:04:05Z")}}]'
        ),
        patch_bytes='[JSONPatch{op: "add", path: "/metadata/annotations", value: {"b": b"ab"}}]',
        patch_quantity='[JSONPatch{op: "add", path: "/metadata/labels/q", value: quantity("1Gi")}]',
        patch_quantity_text=(
            '[JSONPatch{op: "add", path: "/spec/containers/0/resources", value: {"limits": {"cpu": "1000m"}}}]'
        ),
        patch_bad_quantity=(
            '[JSONPatch{op: "add", path: "/spec/containers/0/resources", value: {"limits": {"cpu": "many"}}}]'
        ),
        patch_optional='[JSONPatch{op: "add", path: "/metadata/labels/o", value: optional.of("a")}]',
        patch_optional_none='[JSONPatch{op: "add", path: "/metadata/labels/o", value: optional.none()}]',
        patch_number_keys='[JSONPatch{op: "add", path: "/metadata/annotations", value: {1: "a"}}]',
        patch_boolean_keys='[JSONPatch{op: "add", path: "/metadata/annotations", value: {true: "a"}}]',
        patch_type='[JSONPatch{op: "add", path: "/metadata/labels/t", value: string}]',
        patch_wrong_type_name=(
            '[JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{'
            "seccompProfile: Object.spec.wrong{type: 'RuntimeDefault'}}}]"
        ),
        patch_object_with_list=(
            '[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{'
            'name: "o", image: "o", args: ["a"], stdin: true}}]'
        ),
        patch_object_with_null=(
            '[JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{runAsUser: null}}]'
        ),
        patch_object_with_map_in_list=(
            '[JSONPatch{op: "add", path: "/spec/volumes", value: [Object.spec.volumes{name: "v", '
            'projected: Object.spec.volumes.projected{sources: [{"configMap": {"name": "c"}}]}}]}]'
        ),
        patch_whole_metadata_test='[JSONPatch{op: "test", path: "", value: {"a": "b"}}]',
        patch_empty="[JSONPatch{}].filter(p, false)",
    ),
    # A list that split() makes is no list to the merge there. Ours cannot tell it from another.
    Mutation(
        "split-text",
        "pod",
        ("Object{metadata: Object.metadata{finalizers: 'example.test/a example.test/c'.split(' ')}}",),
        LENIENT,
    ),
    # An object in a list makes kube-apiserver 1.36.3 panic (reflect.Set: *structpb.Struct for *structpb.Value).
    Mutation(
        "patch-object-in-list",
        "pod",
        ('[JSONPatch{op: "add", path: "/spec/tolerations", value: [Object.spec.tolerations{key: "k"}]}]',),
        LENIENT,
    ),
    *_of(
        "deployment",
        replicas="Object{spec: Object.spec{replicas: 4}}",
        replicas_default=(
            '[JSONPatch{op: "remove", path: "/spec/replicas"}]',
            'Object{metadata: Object.metadata{labels: {"replicas": string(object.spec.replicas)}}}',
        ),
        replicas_too_large="Object{spec: Object.spec{replicas: 4294967299}}",
        template_label=(
            "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{"
            'labels: {"more": "1"}}}}}'
        ),
        selector_is_atomic='Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}',
        surge=(
            "Object{spec: Object.spec{strategy: Object.spec.strategy{"
            'rollingUpdate: Object.spec.strategy.rollingUpdate{maxSurge: 2, maxUnavailable: "10%"}}}}'
        ),
        surge_boolean=(
            "Object{spec: Object.spec{strategy: Object.spec.strategy{"
            "rollingUpdate: Object.spec.strategy.rollingUpdate{maxSurge: true}}}}"
        ),
        patch_replicas_text='[JSONPatch{op: "replace", path: "/spec/replicas", value: "4"}]',
        patch_replicas_large='[JSONPatch{op: "replace", path: "/spec/replicas", value: 4294967299}]',
        patch_surge_boolean='[JSONPatch{op: "replace", path: "/spec/strategy/rollingUpdate/maxSurge", value: true}]',
        patch_template_unknown='[JSONPatch{op: "add", path: "/spec/template/spec/nodeSelectr", value: {"a": "b"}}]',
    ),
    *_of(
        "service",
        service_port_by_keys=(
            'Object{spec: Object.spec{ports: [Object.spec.ports{port: 80, protocol: "TCP", name: "web"}]}}'
        ),
        service_port_default_key='Object{spec: Object.spec{ports: [Object.spec.ports{port: 80, name: "web"}]}}',
        service_selector='Object{spec: Object.spec{selector: {"b": "c"}}}',
    ),
    *_of(
        "configmap",
        data='Object{data: {"new": "value", "a": "changed"}}',
        data_null="Object{data: {'a': optional.none()}}",
        binary="Object{binaryData: {'c': 'YWI='}}",
        binary_bad="Object{binaryData: {'c': '!'}}",
        immutable="Object{immutable: true}",
        patch_data='[JSONPatch{op: "replace", path: "/data", value: {"only": "this"}}]',
        patch_no_data='[JSONPatch{op: "remove", path: "/data"}]',
    ),
    # The text has the address of the value.
    Mutation("quantity-for-text", "pod", (_pod_spec("schedulerName: quantity('1Gi')"),), VARIES),
    *_of(
        "widget",
        custom_map_list=(
            'Object{spec: Object.spec{parts: [Object.spec.parts{name: "b", size: 3}, Object.spec.parts{name: "c"}]}}'
        ),
        custom_two_keys=(
            'Object{spec: Object.spec{slots: [Object.spec.slots{row: 1, column: 2, value: "new"}, '
            'Object.spec.slots{row: 2, column: 2, value: "other"}]}}'
        ),
        custom_set='Object{spec: Object.spec{tags: ["b", "z"]}}',
        custom_atomic_list='Object{spec: Object.spec{steps: ["b"]}}',
        custom_plain_list="Object{spec: Object.spec{plain: [1]}}",
        custom_atomic_map='Object{spec: Object.spec{fixed: Object.spec.fixed{a: "b"}}}',
        custom_granular_map='Object{spec: Object.spec{options: {"b": "c"}}}',
        custom_free='Object{spec: Object.spec{free: Object.spec.free{list: ["x"], map: {"b": "c"}}}}',
        custom_free_list="Object{spec: Object.spec{anything: ['x']}}",
        custom_int_or_string='Object{spec: Object.spec{either: "x"}}',
        custom_number="Object{spec: Object.spec{ratio: 0.5, count: 4}}",
        custom_null="Object{spec: Object.spec{maybe: optional.none()}}",
        custom_unknown='Object{spec: Object.spec{other: "x"}}',
        custom_wrong_type='Object{spec: Object.spec{count: "x"}}',
        custom_embedded=(
            'Object{spec: Object.spec{pod: Object.spec.pod{metadata: Object.spec.pod.metadata{labels: {"a": "b"}}}}}'
        ),
        **{f"custom_order_{order}": f"Object{{spec: Object.spec{{tags: {list(order)}}}}}" for order in _ORDERS},
        custom_patch='[JSONPatch{op: "add", path: "/spec/tags/-", value: "y"}]',
        custom_patch_object='[JSONPatch{op: "add", path: "/spec/options", value: {"x": "y"}}]',
        custom_defaulted_key='Object{spec: Object.spec{ports: [Object.spec.ports{number: 1, note: "x"}]}}',
    ),
)


def _container(name: str, **more: Any) -> Manifest:
    return {"name": name, "image": f"example.test/{name}:1", **more}


_TEMPLATE: Manifest = {
    "metadata": {"labels": {"app": "main"}},
    "spec": {"containers": [_container("main"), _container("second")]},
}
_META: Manifest = {"name": "main", "labels": {"app": "main"}}

OBJECTS: Mapping[str, tuple[str, Manifest]] = {
    "pod": (
        "/api/v1/namespaces/{namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**_META, "finalizers": ["example.test/a"]},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [
                    _container("main", env=[{"name": "A", "value": "1"}], ports=[{"containerPort": 80}]),
                    _container("second", command=["sleep"]),
                    _container("third"),
                ],
            },
        },
    ),
    "deployment": (
        "/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _META,
            "spec": {"selector": {"matchLabels": {"app": "main"}}, "template": _TEMPLATE},
        },
    ),
    "service": (
        "/api/v1/namespaces/{namespace}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _META,
            "spec": {
                "selector": {"a": "b"},
                "clusterIP": "None",
                "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}],
            },
        },
    ),
    "configmap": (
        "/api/v1/namespaces/{namespace}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _META, "data": {"a": "1", "b": "2"}},
    ),
    "widget": (
        f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets",
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "metadata": _META,
            "spec": {
                "parts": [{"name": "a", "size": 1}, {"name": "b", "size": 2}],
                "slots": [{"row": 1, "column": 1, "value": "x"}, {"row": 1, "column": 2, "value": "y"}],
                "tags": ["a", "b", "c", "d", "e"],
                "steps": ["a"],
                "plain": [1, 2],
                "fixed": {"a": "a", "b": "b"},
                "options": {"a": "a"},
                "free": {"list": ["a", "b"], "map": {"a": "a"}, "scalar": 1},
                "anything": ["a"],
                "either": 3,
                "ratio": 1.5,
                "maybe": 1,
                "count": 3,
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inner"}},
                "ports": [{"number": 1}, {"number": 1, "protocol": "UDP"}],
            },
        },
    ),
}

_TEXT: Manifest = {"type": "string"}
_NUMBER: Manifest = {"type": "integer"}


def _items(properties: Manifest, *keys: str) -> Manifest:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": {
            "type": "object",
            "required": [key for key in keys if "default" not in properties[key]],
            "properties": properties,
        },
    }


SCHEMA: Manifest = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "parts": _items({"name": _TEXT, "size": _NUMBER}, "name"),
                "slots": _items({"row": _NUMBER, "column": _NUMBER, "value": _TEXT}, "row", "column"),
                "ports": _items(
                    {"number": _NUMBER, "protocol": {"type": "string", "default": "TCP"}, "note": _TEXT},
                    "number",
                    "protocol",
                ),
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
                "steps": {"type": "array", "x-kubernetes-list-type": "atomic", "items": _TEXT},
                "plain": {"type": "array", "items": _NUMBER},
                "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": _TEXT},
                "options": {"type": "object", "additionalProperties": _TEXT},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "anything": {"x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
                "ratio": {"type": "number"},
                "maybe": {"type": "integer", "nullable": True},
                "count": {"type": "integer", "format": "int32"},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        }
    },
}  # fmt: skip

CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
