"""All that differs between releases in the language and in its functions.

The other modules are the newest release's. `Feature` names what the language itself has since a release: whoever parses,
checks or evaluates asks the dialect for it. `FORMER` holds the overloads of the releases before. A library that came with a
release says so itself (`Library.since`), because expressions that are new may not use it at once.

Sources: the differences between cel-go 0.26.0 (1.36) and 0.29.2 (1.37), and between k8s.io/apiserver 0.36 and 0.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from policies.cel import cost
from policies.cel.function import Function, Library, Overload
from policies.cel.library.kubernetes import regex
from policies.cel.library.standard import conversion, lists, strings, text, time
from policies.kubernetes.release import Release, named

_V1_37 = named("1.37")


class Feature(Enum):
    """What the language has since a release, in a sentence each."""

    QUOTED_FIELDS = _V1_37, "Fields may be written in backticks: labels.`app.kubernetes.io/name`."
    SHADOWING = _V1_37, "A macro's variable hides longer names that begin with it, and `.x` always means the outer x."
    STRICT_ALTERNATIVES = _V1_37, "`or` and `orValue` fail on what is no optional, rather than give it back."
    WHOLE_OPTIONALS = _V1_37, "A variable that holds an optional keeps its content as it is, also an optional."
    WRAPPED_FIELDS = _V1_37, "Messages name the class of a wrapped value where JSON itself was named."

    @property
    def since(self) -> Release:
        """The first release that has it."""
        return self.value[0]

    @property
    def what(self) -> str:
        """What it is."""
        return self.value[1]


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
            **_was(text.LIBRARY, "starts_with_string", cost=cost.of_first),
            **_was(text.LIBRARY, "ends_with_string", cost=cost.of_first),
        },
    ),
    Former(_V1_37, "`matches(text, pattern)` costs 1, as a call.", _was(regex.LIBRARY, "matches", cost=1)),
    Former(_V1_37, "`duration` takes an int, which then fails.", {"duration": (conversion.INT_TO_DURATION,)}),
    Former(
        _V1_37,
        "`lists.range` gives an empty list for a negative size, and has no limit of its own.",
        _was(lists.LIBRARY, "lists_range", call=lists.unbounded_range),
    ),
    Former(
        _V1_37,
        "The cost of `flatten` falls with a negative depth.",
        {
            "flatten": (
                *_was(lists.LIBRARY, "list_flatten", cost=lists.of_any_depth)["flatten"],
                *_was(lists.LIBRARY, "list_flatten_int", cost=lists.of_any_depth)["flatten"],
            )
        },
    ),
    Former(
        _V1_37,
        "An empty text is found at any offset, also behind the end and before the start.",
        {
            **_was(strings.LIBRARY, "string_index_of_string_int", call=strings.index_of_anywhere),
            **_was(strings.LIBRARY, "string_last_index_of_string_int", call=strings.last_index_of_anywhere),
        },
    ),
    Former(
        _V1_37,
        "The minutes of a time zone such as `+01:30` have no bounds.",
        {function.name: (function.overloads[1],) for function in time.functions(bounded=False)},
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
