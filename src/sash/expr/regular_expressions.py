r"""Regular expressions of Java, matched by RE2 where both mean the same.

Spark matches as Java does, Arrow as RE2 does. Both take the leftmost match and try alternatives from left to right.
`as_re2` takes over what they read alike, spells out what they read differently (`.`, `\s`), and refuses the rest. RE2
needs time linear in the text, so that no pattern stops the Sash process.

    pattern   = sequence ("|" sequence)*       a group is (..) or (?:..)
    sequence  = (atom [quantifier])*           a quantifier is * + ? {n} {n,} {n,m}, lazy with ? behind it
    atom      = group | class | . | ^ | $ | escape | character
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_ANY = f"[^{_LINE_ENDS}]"
_SPACES = r" \t\n\x0b\f\r"
# What stands for a class, as the inside of one.
_CLASSES = {"d": "0-9", "w": "0-9A-Z_a-z", "s": _SPACES}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_QUANTIFIER = re.compile(r"([*+?]|\{([0-9]{1,4})(,([0-9]{0,4}))?\})(\??)")
_MOST_REPEATS = 1000


@dataclass(frozen=True)
class RegularExpression:
    """`re2` is the pattern; `least` how many characters a match has at least; `ends` whether it has a $."""

    re2: str
    groups: int
    least: int
    ends: bool


@lru_cache(maxsize=256)
def as_re2(pattern: str, captured: int | None = None) -> RegularExpression:
    r"""The pattern for RE2; ValueError where Java would read it differently.

    Only the group of the number `captured` keeps its match, under the name `kept` (0: the whole); None: all groups do.

    >>> as_re2(r"(a+)-(\d)", 2).re2
    '(?:a+)\\x{2d}(?P<kept>[0-9])'
    >>> as_re2("(a*)*")
    Traceback (most recent call last):
    ValueError: a repetition of what may be empty
    """
    reader = _Reader(pattern, captured)
    text, least = reader.alternatives()
    if reader.place < len(pattern):
        raise ValueError("a ) without its (")
    if captured is not None and captured > reader.groups:
        raise ValueError(f"group {captured} of {reader.groups}")
    re2 = f"(?P<kept>{text})" if captured == 0 else text
    try:
        pc.match_substring_regex("", re2)
    except pa.ArrowInvalid:
        # RE2 limits the product of repetitions that stand in each other.
        raise ValueError(f"repetitions of together more than {_MOST_REPEATS} times") from None
    return RegularExpression(re2, reader.groups, least, reader.ends)


class _Reader:
    """Reads a pattern from left to right; each part gives its RE2 and the least length of its matches."""

    def __init__(self, pattern: str, captured: int | None) -> None:
        self._pattern, self._captured = pattern, captured
        self.place = self.groups = 0
        self.ends = False

    def alternatives(self) -> tuple[str, int]:
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        return "|".join(text for text, _ in parts), min(least for _, least in parts)

    def _sequence(self) -> tuple[str, int]:
        found, total = "", 0
        while self.place < len(self._pattern) and self._pattern[self.place] not in "|)":
            text, least = self._atom()
            quantifier = _QUANTIFIER.match(self._pattern, self.place)
            if quantifier is not None:
                text, least = self._repeated(text, least, quantifier)
            found, total = found + text, total + least
        return found, total

    def _repeated(self, text: str, least: int, quantifier: re.Match[str]) -> tuple[str, int]:
        if not least:
            raise ValueError("a repetition of what may be empty")
        self.place = quantifier.end()
        if self.place < len(self._pattern) and self._pattern[self.place] in "*+?{":
            raise ValueError("one quantifier behind another")
        low, high = int(quantifier[2] or (quantifier[1] == "+")), int(quantifier[4] or 0)
        if max(low, high) > _MOST_REPEATS or (quantifier[4] and high < low):
            raise ValueError(f"a repetition that is not of 0 to {_MOST_REPEATS} times")
        return text + quantifier[0], least * low

    def _accept(self, text: str) -> bool:
        if not self._pattern.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def _next(self) -> str:
        if self.place == len(self._pattern):
            raise ValueError("a pattern that ends too early")
        self.place += 1
        return self._pattern[self.place - 1]

    def _atom(self) -> tuple[str, int]:
        character = self._next()
        if character == "(":
            return self._group()
        if character in "^$":
            self.ends |= character == "$"
            return {"^": r"\A", "$": r"\z"}[character], 0
        if character == ".":
            return _ANY, 1
        if character == "[":
            return self._class(), 1
        if character in "*+?{":
            raise ValueError(f"a {character} without anything before it")
        if character != "\\":
            return _written(character), 1
        letter = self._next()
        if letter.lower() in _CLASSES:
            return f"[{'^' * letter.isupper()}{_CLASSES[letter.lower()]}]", 1
        return _written(self._escaped(letter)), 1

    def _escaped(self, letter: str) -> str:
        if letter.isalnum() and letter not in _CONTROLS:
            raise ValueError(f"the escape \\{letter}")
        return _CONTROLS.get(letter, letter)

    def _group(self) -> tuple[str, int]:
        opening = "(?:"
        if not self._accept("?:"):
            if self._accept("?"):
                raise ValueError("a group that begins with (?, but for (?:")
            self.groups += 1
            if self._captured is None:
                opening = "("
            elif self._captured == self.groups:
                opening = "(?P<kept>"
        text, least = self.alternatives()
        if not self._accept(")"):
            raise ValueError("a ( without its )")
        return f"{opening}{text})", least

    def _class(self) -> str:
        found, first = "[^" if self._accept("^") else "[", self.place
        while self.place == first or not self._accept("]"):
            low = self._member()
            if len(low) > 1:
                found += low
                continue
            found += _written(low)
            if self._pattern.startswith("-", self.place) and self._pattern[self.place + 1 : self.place + 2] != "]":
                self.place += 1
                high = self._member()
                if len(high) > 1 or high < low:
                    raise ValueError(f"the range {low}-{high}")
                found += f"-{_written(high)}"
        return found + "]"

    def _member(self) -> str:
        """One character, or the inside of another class."""
        character = self._next()
        if character in "[]&":
            raise ValueError(f"a {character} in a class; write \\{character}")
        if character != "\\":
            return character
        letter = self._next()
        return _CLASSES[letter] if letter in _CLASSES else self._escaped(letter)


def _written(character: str) -> str:
    return character if character.isalnum() and character.isascii() else f"\\x{{{ord(character):x}}}"


def as_replacement(text: str, groups: int) -> str:
    r"""Java's replacement for RE2: `$1` is a group, and a backslash takes a character as it is.

    >>> as_replacement(r"$1-\$", 1)
    '\\1-$'
    """

    def part(match: re.Match[str]) -> str:
        if match[1] is not None:
            if int(match[1]) > groups:
                raise ValueError(f"group {match[1]} of {groups}")
            return f"\\{match[1]}"
        if match[2] is None:
            raise ValueError("a $ without the number of a group, or a \\ at the end")
        return match[2].replace("\\", "\\\\")

    if groups > 9 and "$" in text:
        raise ValueError("more than 9 groups")
    return re.sub(r"\$([0-9])|\\(.)|[$\\]", part, text, flags=re.DOTALL)


# -- the functions -------------------------------------------------------------------------------------


def _constant(values: pa.Array) -> str | None:
    """The binder lets constants pass only."""
    return values[0].as_py() if len(values) else None


def _check_ends(expression: RegularExpression, texts: pa.Array) -> None:
    """Before a line break at the end Java's $ matches, too, and RE2's does not."""
    if expression.ends and pc.any(pc.match_substring_regex(texts, f"[{_LINE_ENDS}]\\z")).as_py():
        raise ValueError("a value ends with a line break, where $ has several meanings; leave the $ out")


def _matched(type: pa.DataType, texts: pa.Array, pattern: pa.Array) -> pa.Array:
    written = _constant(pattern)
    if written is None:
        return pa.nulls(len(texts), type)
    expression = as_re2(written)
    _check_ends(expression, texts)
    return pc.match_substring_regex(texts, expression.re2)


def _found(texts: pa.Array, pattern: pa.Array, group: int) -> pa.Array | None:
    """What a group matches, NULL where nothing does."""
    written = _constant(pattern)
    if written is None:
        return None
    expression = as_re2(written, group)
    _check_ends(expression, texts)
    return pc.struct_field(pc.extract_regex(texts, expression.re2), "kept")


def _extracted(type: pa.DataType, texts: pa.Array, pattern: pa.Array, group: pa.Array | None = None) -> pa.Array:
    number = 1 if group is None else group[0].as_py() if len(group) else 0
    found = None if number is None else _found(texts, pattern, number)
    if found is None:
        return pa.nulls(len(texts), type)
    return pc.if_else(texts.is_null(), pa.scalar(None, type), found.fill_null(""))


def _first_match(type: pa.DataType, texts: pa.Array, pattern: pa.Array) -> pa.Array:
    """NULL where nothing matches, or only the empty text does."""
    found = _found(texts, pattern, 0)
    if found is None:
        return pa.nulls(len(texts), type)
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, type), found)


def _replaced(type: pa.DataType, texts: pa.Array, pattern: pa.Array, replacement: pa.Array) -> pa.Array:
    written, other = _constant(pattern), _constant(replacement)
    if written is None or other is None:
        return pa.nulls(len(texts), type)
    expression = as_re2(written)
    _check_ends(expression, texts)
    return pc.replace_substring_regex(texts, expression.re2, as_replacement(other, expression.groups))


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "rlike": _matched,
    "regexp_extract": _extracted,
    "regexp_substr": _first_match,
    "regexp_replace": _replaced,
}


def check_constants(function: str, constants: tuple[str | int | None, ...]) -> None:
    """Check the constants behind the first argument; ValueError where Arrow cannot do what Spark does."""
    pattern, *others = constants
    if not isinstance(pattern, str) or None in others:
        return
    group = (others or [1])[0] if function == "regexp_extract" else None
    expression = as_re2(pattern, group if isinstance(group, int) else None)
    if function == "regexp_replace":
        if not expression.least:
            raise ValueError("a pattern that may match nothing")
        as_replacement(str(others[0]), expression.groups)
