"""Random expressions as trees, mostly well-typed, from a table of signatures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

DEEPEST = 6
ILL_TYPED = 0.15
"""How many expressions have a part of the wrong type put into them."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A part of an expression: `template` with `{}` for each child; `type` says what it may stand for."""

    template: str
    type: str
    children: tuple[Tree, ...] = ()

    def __str__(self) -> str:
        return self.template.format(*map(str, self.children))

    def smaller(self) -> Iterator[Tree]:
        """Trees with one part less: a child in place of its parent, or a simpler part."""
        yield from self.children
        if self.children:
            yield from (Tree(text, self.type) for text in LEAVES.get(self.type, ())[:1])
        for index, child in enumerate(self.children):
            for other in child.smaller():
                yield Tree(self.template, self.type, (*self.children[:index], other, *self.children[index + 1 :]))


# Braces of CEL are doubled: templates go through str.format.
LEAVES: dict[str, Sequence[str]] = {
    "int": ("1", "0", "-1", "3", "9223372036854775807", "size('é😀')"),
    "uint": ("1u", "0u", "18446744073709551615u"),
    "double": ("1.5", "0.0", "-0.5", "1e300", "(0.0 / 0.0)"),
    "bool": ("true", "false", "has(object.a.i)", "has(object.nope)", "(object.a.b == true)", "has(object.a.nope.x)"),
    "string": ("'a'", "''", "'1'", "'é😀'", "'a-b-c'", "'1Gi'", "'10.0.0.1'", "request.operation", "request.name"),
    "bytes": ("b'a'", "b''", "b'\\xff'"),
    "list": ("[1, 2]", "[]", "[3, 1, 2, 1]", "lists.range(3)"),
    "strings": ("['a', 'b']", "['b', 'a', 'a']", "request.userInfo.groups", "'a,b'.split(',')"),
    "map": ("{{'a': 1}}", "{{}}", "{{'x': 2}}"),
    "duration": ("duration('1h')", "duration('-1.5s')"),
    "timestamp": ("timestamp('2026-02-03T04:05:06.7Z')", "timestamp(0)"),
    "optional": (
        "optional.of(1)",
        "optional.none()",
        "object.?a.?i",
        "object.?nope.?i",
        "object.l[?0]",
        "object.l[?9]",
    ),
    "quantity": ("quantity('1Gi')", "quantity('500m')"),
    "ip": ("ip('10.0.0.1')", "ip('::1')"),
    "cidr": ("cidr('10.0.0.0/8')",),
    "semver": ("semver('1.2.3')", "semver('v1.3', true)"),
    "url": ("url('https://a.example:8443/p?q=1')",),
    "dyn": (
        *("object.a.i", "object.a.d", "object.a.s", "object.a.b", "object.a.n", "object.a.l", "object.a.m", "object.l"),
        *(
            "object.a.nope",
            "object.l[0]",
            "object.l[9]",
            "object.a['s']",
            "params.i",
            "oldObject",
            "dyn(1u)",
            "dyn([])",
        ),
    ),
}
FUNCTIONS: dict[str, Sequence[str]] = {
    "int": (
        *("({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} / {int})", "({int} % {int})", "-({int})"),
        *("int({string})", "int({double})", "int({uint})", "{string}.size()", "{list}.size()", "{map}.size()"),
        *("{string}.indexOf({string})", "{string}.lastIndexOf({string}, {int})", "{list}.sum()", "{list}.max()"),
        *(
            "{list}[{int}]",
            "{map}['a']",
            "{optional}.orValue({int})",
            "{list}.indexOf({int})",
            "{duration}.getSeconds()",
        ),
        *("{timestamp}.getHours()", "{timestamp}.getDayOfYear('+01:00')", "{quantity}.asInteger()", "{ip}.family()"),
        *(
            "{cidr}.prefixLength()",
            "{semver}.major()",
            "{quantity}.compareTo({quantity})",
            "{semver}.compareTo({semver})",
        ),
        *("({bool} ? {int} : {int})", "int({dyn})", "size({dyn})", "sign({quantity})", "variables.i"),
    ),
    "uint": (
        "({uint} + {uint})",
        "({uint} * {uint})",
        "({uint} % {uint})",
        "uint({int})",
        "({bool} ? {uint} : {uint})",
    ),
    "double": ("({double} + {double})", "({double} / {double})", "double({int})", "double({string})", "-({double})"),
    "bool": (
        *("({bool} && {bool})", "({bool} || {bool})", "!({bool})", "({int} < {int})", "({string} <= {string})"),
        *("({dyn} == {dyn})", "({dyn} < {dyn})", "({dyn} != {int})", "({string} == {string})", "({list} == {list})"),
        *(
            "({int} in {list})",
            "({dyn} in {list})",
            "({string} in {map})",
            "({string} in {strings})",
            "({dyn} in {dyn})",
        ),
        *("{string}.contains({string})", "{string}.startsWith({string})", "{string}.matches('^[a-z]+$')"),
        *("{string}.matches({string})", "{list}.all(x, {bool_x})", "{list}.exists(x, {bool_x})"),
        *("{list}.exists_one(x, {bool_x})", "{map}.all(x, {bool})", "{dyn}.all(x, {bool})", "{dyn}.exists(x, {bool})"),
        *("{list}.all(i, x, {bool_x})", "{map}.exists(k, v, {bool})", "{list}.existsOne(i, x, {bool_x})"),
        *("{optional}.hasValue()", "({optional} == {optional})", "{list}.isSorted()", "isQuantity({string})"),
        *(
            "isIP({string})",
            "isURL({string})",
            "isCIDR({string})",
            "isSemver({string})",
            "{quantity}.isLessThan({quantity})",
        ),
        *("({quantity} == {quantity})", "{cidr}.containsIP({string})", "{cidr}.containsIP({ip})", "{ip}.isLoopback()"),
        *("sets.contains({list}, {list})", "sets.intersects({list}, {list})", "sets.equivalent({list}, {list})"),
        *(
            "({duration} < {duration})",
            "({timestamp} >= {timestamp})",
            "({bool} ? {bool} : {bool})",
            "({uint} > {uint})",
        ),
        *(
            "format.dns1123Label().validate({string}).hasValue()",
            "(type({dyn}) == int)",
            "variables.b",
            "bool({string})",
        ),
        *("authorizer.path({string}).check('get').allowed()", "({double} >= {double})", "({map} == {map})"),
    ),
    "string": (
        *("({string} + {string})", "string({int})", "string({double})", "string({dyn})", "{string}.upperAscii()"),
        *(
            "{string}.replace({string}, {string})",
            "{string}.substring({int})",
            "{string}.charAt({int})",
            "{string}.trim()",
        ),
        *(
            "{strings}.join({string})",
            "{strings}[{int}]",
            "'%s-%d'.format([{string}, {int}])",
            "strings.quote({string})",
        ),
        *("{string}.find('[a-z]')", "{url}.getHost()", "({bool} ? {string} : {string})", "string({duration})"),
        *("string({bytes})", "string({timestamp})", "'%s'.format([{dyn}])", "variables.s", "string({ip})"),
    ),
    "bytes": ("bytes({string})", "({bytes} + {bytes})"),
    "list": (
        *(
            "({list} + {list})",
            "{list}.map(x, {int_x})",
            "{list}.filter(x, {bool_x})",
            "{list}.map(x, {bool_x}, {int_x})",
        ),
        *("{list}.sort()", "{list}.reverse()", "{list}.distinct()", "{list}.slice({int}, {int})", "[{int}, {int}]"),
        *("[{list}, {list}].flatten()", "{list}.transformList(i, x, {int_x})", "[{int}, ?{optional}]", "[{int}]"),
        *("lists.range({int} % 5)", "({bool} ? {list} : {list})", "{list}.sortBy(x, {int_x})", "variables.l"),
    ),
    "strings": (
        *("{string}.split({string})", "{strings}.map(s, s + {string})", "{strings}.sort()", "[{string}, {string}]"),
        *("{string}.findAll('[a-z]', {int})", "({strings} + {strings})", "{map}.map(k, k)"),
    ),
    "map": (
        "{{'a': {int}}}",
        "{list}.transformMap(i, x, {int_x}).transformMapEntry(i, x, {{'a': x}})",
        "{{?'a': {optional}}}",
    ),
    "duration": ("({duration} + {duration})", "duration({string})", "({timestamp} - {timestamp})"),
    "timestamp": ("({timestamp} + {duration})", "timestamp({string})", "timestamp({int})"),
    "optional": (
        *("optional.of({int})", "optional.ofNonZeroValue({int})", "{optional}.optMap(o, {int})", "{list}.first()"),
        *("{optional}.or({optional})", "{list}[?{int}]", "{map}.?a", "{optional}.optFlatMap(o, {optional})"),
    ),
    "quantity": ("quantity({string})", "{quantity}.add({quantity})", "{quantity}.sub({int})"),
    "ip": ("ip({string})", "{cidr}.ip()"),
    "cidr": ("cidr({string})", "{cidr}.masked()"),
    "semver": ("semver({string})",),
    "url": ("url({string})",),
    "dyn": (
        *("dyn({int})", "dyn({string})", "dyn({list})", "dyn({bool})", "dyn({double})", "dyn({map})", "dyn({uint})"),
        *(
            "({dyn} + {dyn})",
            "({dyn} - {dyn})",
            "-({dyn})",
            "{dyn}.x",
            "{dyn}[{int}]",
            "{dyn}[{string}]",
            "{dyn}[{dyn}]",
        ),
        *("({bool} ? object : oldObject).a", "({bool} ? object.a : params).i", "({bool} ? {dyn} : {dyn})"),
        *(
            "{dyn}.map(x, {dyn})",
            "{dyn}.filter(x, {bool})",
            "[{dyn}, {dyn}]",
            "{dyn}.?a.orValue({dyn})",
            "({dyn} * {dyn})",
        ),
        *("object.l.map(x, x)", "{dyn}.sort()", "dyn({optional})", "dyn({duration})", "{dyn}.size()", "dyn(null)"),
    ),
}
TYPES = tuple(LEAVES)
MUTATIONS = (
    "[JSONPatch{{op: {string}, path: {string}, value: {dyn}}}]",
    "[JSONPatch{{op: 'add', path: jsonpatch.escapeKey({string}), ?value: {optional}}}]",
    "Object{{spec: Object.spec{{a: {int}, b: {strings}, ?c: {optional}}}}}",
)


def generate(random: Random, mode: str = "any") -> Tree:
    """One expression."""
    if mode in {"jsonpatch", "applyconfig"}:
        wanted = "[" if mode == "jsonpatch" else "O"
        return _fill(random, random.choice([one for one in MUTATIONS if one[0] == wanted]), mode, 3, ())
    type_ = "bool" if mode == "bool" or random.random() < 0.4 else random.choice(TYPES)
    tree = _tree(random, type_, random.randint(2, DEEPEST), ())
    return _mutated(random, tree) if random.random() < ILL_TYPED else tree


def _tree(random: Random, type_: str, depth: int, scope: tuple[str, ...]) -> Tree:
    if type_.endswith("_x"):  # the body of a macro, which may use its variable
        return _tree(random, type_.removesuffix("_x"), depth, (*scope, "x"))
    if scope and type_ in {"int", "dyn"} and random.random() < 0.5:
        return Tree(scope[-1], type_)
    if depth <= 1 or random.random() < 0.15 or type_ not in FUNCTIONS:
        return Tree(random.choice(LEAVES[type_]), type_)
    return _fill(random, random.choice(FUNCTIONS[type_]), type_, depth - 1, scope)


def _fill(random: Random, pattern: str, type_: str, depth: int, scope: tuple[str, ...]) -> Tree:
    template, children, rest = "", [], pattern
    while "{" in rest:
        before, _, rest = rest.partition("{")
        if rest.startswith("{"):
            template, rest = f"{template}{before}{{{{", rest[1:]
            continue
        name, _, rest = rest.partition("}")
        template = f"{template}{before}{{}}"
        children.append(_tree(random, name, depth, scope))
    return Tree(template + rest, type_, tuple(children))


def _mutated(random: Random, tree: Tree) -> Tree:
    """The tree with one part replaced by one of any type."""
    if not tree.children or random.random() < 0.3:
        return _tree(random, random.choice(TYPES), 2, ())
    index = random.randrange(len(tree.children))
    children = list(tree.children)
    children[index] = _mutated(random, children[index])
    return Tree(tree.template, tree.type, tuple(children))
