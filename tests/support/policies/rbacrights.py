"""Roles and bindings, and the rights that they grant: the same checks for our RBAC and for the API server's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from policies.cel.library.authorizer import Check, CheckAnswer, User, service_account
from policies.kubernetes.release import Release

TEAM, OTHER = "rbac-team", "rbac-other"
"""The Namespaces that the roles and bindings are in."""

RIGHTS = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")

_READER = 'RBAC: allowed by ClusterRoleBinding "rbac-readers" of ClusterRole "rbac-reader" to '
_RAE, _SID, _WES, _ABE, _KIM = (User(name) for name in ("rae", "sid", "wes", "abe", "kim"))
_TO_SID = 'RBAC: allowed by ClusterRoleBinding "rbac-scalers" of ClusterRole "rbac-scaler" to User "sid"'
_TO_WES = 'RBAC: allowed by ClusterRoleBinding "rbac-whole" of ClusterRole "rbac-whole" to User "wes"'
_TO_ABE = 'RBAC: allowed by ClusterRoleBinding "rbac-above" of ClusterRole "rbac-above" to User "abe"'
_TO_RULERS = 'RBAC: allowed by ClusterRoleBinding "rbac-anything" of ClusterRole "rbac-anything" to Group "rulers"'
_KEEPER = 'RBAC: allowed by RoleBinding "keepers/rbac-team" of Role "secrets" to '
_ELSEWHERE = 'RBAC: allowed by RoleBinding "readers/rbac-other" of ClusterRole "rbac-reader" to '
_MISSING = 'rbac: RBAC: clusterrole.rbac.authorization.k8s.io "rbac-missing" not found'
_GONE = 'rbac: RBAC: role.rbac.authorization.k8s.io "gone" not found'
_RULER = User("ron", groups=("other", "rulers"))
_MASTER = User("mel", groups=("system:masters",))


def _resource(user: User, verb: str, what: str, namespace: str = "", name: str = "") -> Check:
    """A check about `resource.group/subresource`."""
    full, _, subresource = what.partition("/")
    resource, _, group = full.partition(".")
    return Check(
        user=user,
        verb=verb,
        api_group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _path(user: User, path: str, verb: str = "get") -> Check:
    return Check(user=user, verb=verb, path=path)


def _allowed(reason: str) -> CheckAnswer:
    return CheckAnswer(allowed=True, reason=reason)


def _refused(reason: str = "") -> CheckAnswer:
    return CheckAnswer(allowed=False, reason=reason)


CHECKS: dict[str, tuple[Check, CheckAnswer]] = {
    "a user in a namespace": (_resource(_RAE, "get", "pods", TEAM), _allowed(f'{_READER}User "rae"')),
    "a user in all namespaces": (_resource(_RAE, "list", "pods"), _allowed(f'{_READER}User "rae"')),
    "a user by a name": (_resource(_RAE, "get", "pods", TEAM, "web"), _allowed(f'{_READER}User "rae"')),
    "the first subject counts": (
        _resource(User("rae", groups=("rbac-group",)), "get", "pods"),
        _allowed(f'{_READER}Group "rbac-group"'),
    ),
    "a group": (_resource(User("x", groups=("rbac-group",)), "get", "pods"), _allowed(f'{_READER}Group "rbac-group"')),
    "a group is no user": (_resource(User("rbac-group"), "get", "pods"), _refused()),
    "a service account": (
        _resource(service_account(TEAM, "robot"), "get", "pods"),
        _allowed(f'{_READER}ServiceAccount "robot/rbac-team"'),
    ),
    "a service account elsewhere": (_resource(service_account(OTHER, "robot"), "get", "secrets"), _refused()),
    "another verb": (_resource(_RAE, "delete", "pods"), _refused()),
    "no verb is a part of another": (_resource(_RAE, "ge", "pods"), _refused()),
    "another group of the API": (_resource(_RAE, "get", "pods.apps"), _refused()),
    "another resource": (_resource(_RAE, "get", "nodes"), _refused()),
    "a subresource by its name": (_resource(_RAE, "get", "pods/log"), _allowed(f'{_READER}User "rae"')),
    "a resource is not its subresources": (_resource(_RAE, "get", "pods/exec"), _refused()),
    "a path": (_path(_RAE, "/rbac"), _allowed(f'{_READER}User "rae"')),
    "below a path": (_path(_RAE, "/rbac/x"), _refused()),
    "a path with a star": (_path(_RAE, "/rbac-tree/a/b"), _allowed(f'{_READER}User "rae"')),
    "the root of a star": (_path(_RAE, "/rbac-tree/"), _allowed(f'{_READER}User "rae"')),
    "above a star": (_path(_RAE, "/rbac-tree"), _refused()),
    "two stars are one": (_path(_RAE, "/rbac-stars/x"), _allowed(f'{_READER}User "rae"')),
    "a star as it is written": (_path(_RAE, "/rbac-tree/*"), _allowed(f'{_READER}User "rae"')),
    "a path by another verb": (_path(_RAE, "/rbac", "post"), _refused()),
    "a path is no resource": (_path(_RAE, "pods"), _refused()),
    "any resource's subresource": (_resource(_SID, "update", "deployments.apps/scale"), _allowed(_TO_SID)),
    "an unheard-of subresource": (_resource(_SID, "frobnicate", "x.batch/scale", OTHER), _allowed(_TO_SID)),
    "the resource itself is not in it": (_resource(_SID, "get", "deployments.apps"), _refused()),
    "the subresource of another group": (_resource(_SID, "get", "pods/scale"), _refused()),
    "a longer subresource": (_resource(_SID, "get", "deployments.apps/upscale"), _refused()),
    "a resource called as the subresource": (_resource(_SID, "get", "scale.apps"), _refused()),
    "a name that is listed": (_resource(_SID, "update", "deployments.apps", TEAM, "db"), _allowed(_TO_SID)),
    "a name that is not": (_resource(_SID, "update", "deployments.apps", TEAM, "cache"), _refused()),
    "no name where some are listed": (_resource(_SID, "update", "deployments.apps", TEAM), _refused()),
    "a star for subresources is no pattern": (_resource(_SID, "delete", "pods/log"), _refused()),
    "nor is it the resource": (_resource(_SID, "delete", "pods"), _refused()),
    "a star as the subresource": (_resource(_SID, "delete", "pods/*"), _allowed(_TO_SID)),
    "aggregated by a label": (_resource(_WES, "get", "pods", TEAM), _allowed(_TO_WES)),
    "aggregated by an expression": (_resource(_WES, "get", "x.apps/scale"), _allowed(_TO_WES)),
    "aggregated paths": (_path(_WES, "/rbac"), _allowed(_TO_WES)),
    "aggregated twice": (_resource(_ABE, "list", "pods"), _allowed(_TO_ABE)),
    "not aggregated": (_resource(_WES, "get", "secrets"), _refused()),
    "everything": (_resource(_RULER, "any", "thing.example.com/at-all", "nowhere", "x"), _allowed(_TO_RULERS)),
    "every path": (_path(_RULER, "/x", "any"), _allowed(_TO_RULERS)),
    "system:masters": (_resource(_MASTER, "any", "thing.example.com"), _allowed("")),
    "paths for system:masters": (_path(_MASTER, "/x", "any"), _allowed("")),
    "a role that is not there": (_resource(User("max"), "get", "pods"), _refused(_MISSING)),
    "a role of a namespace that is not there": (_resource(User("mia"), "get", "pods", TEAM), _refused(_GONE)),
    "it is missed in its namespace only": (_resource(User("mia"), "get", "pods", OTHER), _refused()),
    "two roles that are not there, one is asked": (_resource(User("max"), "get", "pods", TEAM), _refused(_MISSING)),
    "a role without rules": (_resource(User("ida"), "get", "pods"), _refused()),
    "a binding without subjects": (_resource(User("stan"), "watch", "pods", TEAM), _refused()),
    "a role of a namespace": (_resource(_KIM, "create", "configmaps", TEAM), _allowed(f'{_KEEPER}User "kim"')),
    "with a name": (_resource(_KIM, "get", "secrets", TEAM, "token"), _allowed(f'{_KEEPER}User "kim"')),
    "in another namespace": (_resource(_KIM, "create", "configmaps", OTHER), _refused()),
    "in all namespaces": (_resource(_KIM, "create", "configmaps"), _refused()),
    "a service account of the namespace": (
        _resource(service_account(TEAM, "builder"), "create", "configmaps", TEAM),
        _allowed(f'{_KEEPER}ServiceAccount "builder/rbac-team"'),
    ),
    "a service account of another namespace": (
        _resource(service_account(OTHER, "builder"), "create", "configmaps", TEAM),
        _allowed(f'{_KEEPER}ServiceAccount "builder/rbac-other"'),
    ),
    "a ClusterRole in a namespace": (_resource(_KIM, "get", "pods", OTHER), _allowed(f'{_ELSEWHERE}User "kim"')),
    "not beyond it": (_resource(_KIM, "get", "pods", TEAM), _refused()),
    "nor its paths": (_path(_KIM, "/rbac"), _refused()),
    "all service accounts of a namespace": (
        _resource(service_account(TEAM, "any"), "get", "pods", OTHER),
        _allowed(f'{_ELSEWHERE}Group "system:serviceaccounts:rbac-team"'),
    ),
    "a stranger": (_resource(User("stan"), "get", "pods", TEAM), _refused()),
}


def answer_in(name: str, release: Release) -> CheckAnswer:
    """The answer to the check with a name, in a release."""
    answer = CHECKS[name][1]
    return answer if release.names_authorizers else replace(answer, reason=answer.reason.removeprefix("rbac: "))
