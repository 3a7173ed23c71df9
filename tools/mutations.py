"""The mutants of the source: all changes of five kinds, and a choice of them that a seed makes.

    operator     a + b     a - b            and, or, not, +=, too
    constant     1         2                True: False; "name": "name_"; sentences stay as they are
    comparison   a < b     a <= b           is: is not; in: not in
    statement    f(a)      pass             calls, +=, attributes, del, raise, break, continue, return from the middle
    arguments    f(a, b)   f(b, a)

What no test should notice is left alone: docstrings, annotations, words for people, `__all__`, `__repr__`.
The changed text keeps its number of lines, so that all other lines keep their numbers.
The choice depends on the seed and on the names of the mutants alone: an edit elsewhere does not reshuffle the list, and
60 mutants are the first 60 of 200. A name counts within its function, and so outlives most edits of its own file.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from types import CodeType

PACKAGES = ("core", "plan", "sql", "expr", "sharing", "panes", "schedule", "changes", "rows", "archive", "storage",
            "isolation", "spark", "runtime")  # fmt: skip
KINDS = ("operator", "constant", "comparison", "statement", "arguments")
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Not: ("not", ""), ast.USub: ("-", ""), ast.Invert: ("~", ""),
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Fields and keywords that only type checkers, readers and assertions of the language itself look at.
SILENT_FIELDS = {"annotation", "returns", "decorator_list", "type_params"}
SILENT_KEYWORDS = {"strict", "stacklevel", "repr"}
SILENT_NAMES = {"__all__", "__slots__", "logger"}
# Calls whose arguments are words for people or for type checkers.
WORDS = {"report", "_report", "warn", "debug", "info", "warning", "error", "exception", "getLogger", "TypeVar", "cast"}
# Calls whose arguments may change places without effect, or never may.
SYMMETRIC = {"isinstance", "issubclass", "hasattr", "getattr", "setattr", "min", "max", "minimum", "maximum", "gcd",
             "lcm", "array_equal", "logical_and", "logical_or"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of a file become `text`."""

    path: str
    scope: str
    kind: str
    ordinal: int
    start: int
    end: int
    text: str
    line: int
    lines: frozenset[int]  # of the statement: a test that executes none of them cannot tell the mutant
    unseen: bool  # the code runs at import or compiled, where the map sees no test

    @property
    def id(self) -> str:
        return f"{self.path.removeprefix('src/sash/')}:{self.scope}:{self.kind}:{self.ordinal}"

    @property
    def package(self) -> str:
        return package_of(self.path)

    def source(self, original: bytes) -> bytes:
        return original[: self.start] + self.text.encode() + original[self.end :]

    def diff(self, original: bytes) -> str:
        texts = original.decode().splitlines(), self.source(original).decode().splitlines()
        return "\n".join(line for line in list(difflib.unified_diff(*texts, n=0, lineterm=""))[2:] if line[0] != "@")


def package_of(path: str) -> str:
    """The package of a file below src/sash; a module that is in none (catalog.py) counts as core."""
    below = Path(path).parts[2:]
    return below[0] if len(below) > 1 else "core"


def name_of(function: ast.expr) -> str:
    """`f` of f and of a.b.f."""
    return getattr(function, "attr", getattr(function, "id", ""))


def is_silent(node: ast.AST, at_import: bool) -> bool:
    """No test should notice a change in here: words for people, types, lists of names."""
    match node:
        case ast.FunctionDef(name="__repr__") | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return True
        case ast.keyword(arg=name):
            return name in SILENT_KEYWORDS
        case ast.Subscript(value=function):
            return name_of(function) == "Literal"
        case ast.If(test=test):
            return name_of(test) == "TYPE_CHECKING"
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            is_type = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)  # Alias = One | Other
            return name in SILENT_NAMES or (at_import and is_type)
    return False


class Finder:
    """All mutants of one source text."""

    def __init__(self, source: bytes, path: str) -> None:
        self.source, self.path = source, path
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.counts: Counter[tuple[str, str]] = Counter()

    def mutants(self) -> Iterator[Mutant]:
        yield from self._below(ast.parse(self.source), "", None, True)

    def _below(self, node: ast.AST, scope: str, statement: ast.stmt | None, unseen: bool) -> Iterator[Mutant]:
        for field, value in ast.iter_fields(node):
            if field in SILENT_FIELDS or (isinstance(node, ast.Raise) and field in ("exc", "cause")):
                continue
            inner, hidden = scope, unseen
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and field == "body":
                inner = f"{scope}.{node.name}".strip(".")
            if isinstance(node, (*FUNCTIONS, ast.Lambda)) and field == "body":
                decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
                hidden = any("njit" in decorator for decorator in decorators)
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not is_silent(child, unseen):
                    yield from self._at(child, node, inner, child if isinstance(child, ast.stmt) else statement, hidden)

    def _at(
        self, node: ast.AST, parent: ast.AST, scope: str, statement: ast.stmt | None, unseen: bool
    ) -> Iterator[Mutant]:
        for kind, start, end, text in self._changes(node, parent):
            self.counts[scope, kind] += 1
            line = self.source.count(b"\n", 0, start) + 1
            lines = frozenset({line, *self._header(statement or node), *self._header(node)})
            name = scope or "module"
            yield Mutant(self.path, name, kind, self.counts[scope, kind], start, end, text, line, lines, unseen)
        if not (isinstance(node, ast.Call) and name_of(node.func) in WORDS):
            yield from self._below(node, scope, statement, unseen)

    def _header(self, node: ast.AST) -> range:
        """The lines of an expression or a simple statement, or those of `if x:` before its body."""
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        if isinstance(body, list):
            last = max(first, getattr(body[0], "lineno", first + 1) - 1)
        return range(first, last + 1)

    def _changes(self, node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        match node:
            case ast.BinOp(left=left, op=op, right=right) if not (is_text(left) or is_text(right)):
                yield from self._symbol("operator", op, self._end(left), self._start(right))
            case ast.AugAssign(target=target, op=op, value=value):
                if not is_text(value):
                    yield from self._symbol("operator", op, self._end(target), self._start(value))
            case ast.BoolOp(op=op, values=values):
                for left, right in pairwise(values):
                    yield from self._symbol("operator", op, self._end(left), self._start(right))
            case ast.UnaryOp(op=op, operand=operand):
                yield from self._symbol("operator", op, self._start(node), self._start(operand))
            case ast.Compare(left=first, ops=ops, comparators=others):
                for left, comparison, right in zip([first, *others], ops, others, strict=False):
                    yield from self._symbol("comparison", comparison, self._end(left), self._start(right))
            case ast.Constant() if (text := other_constant(node.value)) and node.lineno == node.end_lineno:
                yield "constant", self._start(node), self._end(node), text
            case ast.Call(func=function, args=args) if name_of(function) not in SYMMETRIC | WORDS:
                for one, other in pairwise(args):
                    if not isinstance(one, ast.Starred) and not isinstance(other, ast.Starred):
                        yield from self._swap(one, other)
        if isinstance(node, ast.stmt) and is_removable(node, parent):
            start, end = self._start(node), self._end(node)
            yield "statement", start, end, "pass" + "\n" * self.source.count(b"\n", start, end)

    def _symbol(self, kind: str, op: ast.AST, start: int, end: int) -> Iterator[tuple[str, int, int, str]]:
        """The change of the operator between two operands."""
        old, new = OPERATORS.get(type(op), ("", ""))
        gap = self.source[start:end].decode()
        found = re.search(r"\s+".join(map(re.escape, old.split())) + ("" if new else r"\s*"), gap)
        if old and found and "#" not in gap:
            yield kind, start + found.start(), start + found.end(), new

    def _swap(self, one: ast.expr, other: ast.expr) -> Iterator[tuple[str, int, int, str]]:
        a, b, c, d = self._start(one), self._end(one), self._start(other), self._end(other)
        if ast.dump(one) != ast.dump(other):
            yield "arguments", a, d, (self.source[c:d] + self.source[b:c] + self.source[a:b]).decode()

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def other_constant(value: object) -> str:
    """The constant to put in place of `value`; "" for those that stay, as sentences do."""
    match value:
        case bool():
            return str(not value)
        case int() | float():
            return repr(value + 1) if value + 1 != value else ""
        case str() if value.isidentifier():
            return f'"{value}_"'
    return ""


def is_removable(node: ast.stmt, parent: ast.AST) -> bool:
    """Statements without which the code still runs: no names are missing afterwards."""
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
        case ast.Return():
            return not isinstance(parent, FUNCTIONS)
    return False


def essence(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without the places in the source where its parts come from."""
    constants = [essence(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return (code.co_code, *constants, code.co_names, code.co_varnames, code.co_flags, code.co_exceptiontable)


def differs(mutant: Mutant, original: bytes) -> bool:
    """Whether the mutant compiles, to something else than the original."""
    try:
        changed = compile(mutant.source(original), mutant.path, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return essence(changed) != essence(compile(original, mutant.path, "exec", dont_inherit=True))


def choose(root: Path, packages: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants over all packages, of which those of `packages`; every kind in turn, all packages in turn."""
    rounds = []
    for index, package in enumerate(PACKAGES):
        share = count * (index + 1) // len(PACKAGES) - count * index // len(PACKAGES)
        if package in packages:
            kinds = KINDS[index % len(KINDS) :] + KINDS[: index % len(KINDS)]
            rounds += list(enumerate(_first(root, package, kinds, share, seed)))
    return [mutant for _, mutant in sorted(rounds, key=lambda each: each[0])]


def _first(root: Path, package: str, kinds: Iterable[str], share: int, seed: int) -> list[Mutant]:
    paths = (path.relative_to(root).as_posix() for path in (root / "src" / "sash").rglob("*.py"))
    sources = {path: (root / path).read_bytes() for path in paths if package_of(path) == package}
    found = [mutant for path, source in sources.items() for mutant in Finder(source, path).mutants()]
    found.sort(key=lambda each: hashlib.sha256(f"{seed} {each.id}".encode()).digest())

    def usable(kind: str) -> Iterator[Mutant]:
        return (each for each in found if each.kind == kind and differs(each, sources[each.path]))

    turns = zip_longest(*map(usable, kinds))
    return list(islice((each for turn in turns for each in turn if each), share))
