"""Random expressions as trees, mostly well-typed, from the table of signatures beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

DEEPEST = 6
ILL_TYPED = 0.12
"""How many expressions have a part of the wrong type put into them."""
LARGE = 0.01
"""How many expressions are loops that come near the limit of cost."""
_NAMES = ("x", "y", "z", "k", "v", "object", "authorizer")
_SECTION = re.compile(r"\[([a-z]+)\]")
_PART = re.compile(r"<([a-z]+)(?:\|([^>]*))?>")

Scope = tuple[tuple[str, str], ...]
"""The variables of macros with their types, the innermost last."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A part of an expression: texts around its children; `type` says what it may stand for."""

    texts: tuple[str, ...]
    type: str
    children: tuple[Tree, ...] = ()

    def __str__(self) -> str:
        first, *rest = self.texts
        return first + "".join(f"{child}{text}" for child, text in zip(self.children, rest, strict=True))

    def smaller(self) -> Iterator[Tree]:
        """Trees with one part less: a child in place of its parent, or a simpler part."""
        yield from self.children
        if self.children:
            yield from (Tree((text,), self.type) for text in signatures().get(self.type, ((), ()))[0][:1])
        for index, child in enumerate(self.children):
            for other in child.smaller():
                yield Tree(self.texts, self.type, (*self.children[:index], other, *self.children[index + 1 :]))


@cache
def signatures() -> Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Leaves, and what has parts, by type."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    section: tuple[list[str], list[str]] = ([], [])
    for line in Path(__file__).with_name("signatures.txt").read_text(encoding="utf-8").splitlines():
        if head := _SECTION.fullmatch(line):
            section = found.setdefault(head[1], ([], []))
        elif line and not line.startswith("#"):
            section[_PART.search(line) is not None].append(line)
    return {type_: (tuple(leaves), tuple(patterns)) for type_, (leaves, patterns) in found.items()}


def generate(random: Random, mode: str = "any") -> Tree:
    """One expression."""
    if mode in {"jsonpatch", "applyconfig"}:
        return _tree(random, mode, 4, ())
    if random.random() < LARGE:
        return _tree(random, "large", 3, ())
    type_ = "bool" if mode == "bool" or random.random() < 0.4 else _any_type(random)
    return typed(random, type_)


def typed(random: Random, type_: str) -> Tree:
    """One expression of a type, or now and then one with a mistake in it."""
    tree = _tree(random, type_, random.randint(2, DEEPEST), ())
    return _mutated(random, tree) if random.random() < ILL_TYPED else tree


def _any_type(random: Random) -> str:
    return random.choice([type_ for type_ in signatures() if type_ not in {"jsonpatch", "applyconfig", "large"}])


def _tree(random: Random, type_: str, depth: int, scope: Scope) -> Tree:
    known = [name for name, has in dict(scope).items() if has == type_ or (type_ == "dyn" and has != "dyn")]
    if known and random.random() < 0.4:
        return Tree((random.choice(known),), type_)
    leaves, patterns = signatures()[type_]
    if leaves and (depth <= 1 or random.random() < 0.1 or not patterns):
        return Tree((random.choice(leaves),), type_)
    return _fill(random, random.choice(patterns), type_, depth - 1, scope)


def _fill(random: Random, pattern: str, type_: str, depth: int, scope: Scope) -> Tree:
    for placeholder, name in zip(("$x", "$y", "$z"), random.sample(_NAMES[: 6 if depth == 1 else 5], 3), strict=True):
        pattern = pattern.replace(placeholder, name)
    texts, children, end = [], [], 0
    for part in _PART.finditer(pattern):
        texts.append(pattern[end : part.start()])
        end = part.end()
        added = tuple(tuple(one.split(":")) for one in (part[2] or "").split(",") if one)
        children.append(_tree(random, part[1], depth, (*scope, *((name, has) for name, has in added))))
    return Tree((*texts, pattern[end:]), type_, tuple(children))


def _mutated(random: Random, tree: Tree) -> Tree:
    """The tree with one part replaced by one of any type."""
    if not tree.children or random.random() < 0.3:
        return _tree(random, _any_type(random), 2, ())
    index = random.randrange(len(tree.children))
    children = list(tree.children)
    children[index] = _mutated(random, children[index])
    return Tree(tree.texts, tree.type, tuple(children))
