"""All that differs between releases in the functions; the other modules are the newest release's.

`FORMER` holds the overloads of the releases before. A library that came with a release says so itself
(`Library.since`), because new expressions may not use it at once. `Feature` (dialect.py) names what differs in the
language itself.

Sources: the differences between cel-go 0.26.0 (1.36) and 0.29.2 (1.37), and between k8s.io/apiserver 0.36 and 0.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from policies.cel import cost
from policies.cel.function import Function, Library, Overload
from policies.cel.library import conversion, lists, regex, strings
from policies.kubernetes.release import Release, named

_V1_37 = named("1.37")


@dataclass(frozen=True, slots=True)
class Former:
    """Overloads as they were before a release, by the names of their functions.

    An overload with the id of a present one stands in its place; another one comes last.
    """

    until: Release
    what: str
    overloads: Mapping[str, tuple[Overload, ...]]


def _was(library: Library, id: str, **changes: object) -> dict[str, tuple[Overload, ...]]:
    """A present overload with some of its fields as they were, by the name of its function."""
    name, present = next(
        (function.name, overload)
        for function in library.functions
        for overload in function.overloads
        if overload.id == id
    )
    return {name: (replace(present, **changes),)}  # type: ignore[arg-type]  # fields of an Overload


FORMER = (
    Former(
        _V1_37,
        "`startsWith` and `endsWith` cost one pass over the text, and not over what is looked for.",
        {
            **_was(strings.TEXT, "starts_with_string", cost=cost.of_first),
            **_was(strings.TEXT, "ends_with_string", cost=cost.of_first),
        },
    ),
    Former(_V1_37, "`matches(text, pattern)` costs 1, as a call.", _was(regex.LIBRARY, "matches", cost=1)),
    Former(_V1_37, "`duration` takes an int, which then fails.", {"duration": (conversion.INT_TO_DURATION,)}),
    Former(
        _V1_37,
        "`lists.range` gives an empty list for a negative size, and has no limit of its own.",
        _was(lists.CEL_LISTS, "lists_range", call=lists.unbounded_range),
    ),
    Former(
        _V1_37,
        "The cost of `flatten` falls with a negative depth.",
        {
            "flatten": (
                *_was(lists.CEL_LISTS, "list_flatten", cost=lists.of_any_depth)["flatten"],
                *_was(lists.CEL_LISTS, "list_flatten_int", cost=lists.of_any_depth)["flatten"],
            )
        },
    ),
    Former(
        _V1_37,
        "An empty text is found at any offset, also behind the end and before the start.",
        {
            **_was(strings.STRINGS, "string_index_of_string_int", call=strings.index_of_anywhere),
            **_was(strings.STRINGS, "string_last_index_of_string_int", call=strings.last_index_of_anywhere),
        },
    ),
)


def formerly(functions: Mapping[str, Function], release: Release) -> Mapping[str, Function]:
    """The newest release's functions as a release has them."""
    changed = dict(functions)
    for former in FORMER:
        for name, overloads in former.overloads.items() if release < former.until else ():
            changed[name] = replace(changed[name], overloads=_replaced(changed[name].overloads, overloads))
    return changed


def _replaced(present: tuple[Overload, ...], former: tuple[Overload, ...]) -> tuple[Overload, ...]:
    by_id = {overload.id: overload for overload in (*present, *former)}
    return tuple(by_id.values())
