"""String literals as Spark reads and writes them (ParserUtils.unescapeSQLString, quotes doubled as in Spark 4).

sqlglot unescapes a little differently, which would change regular expressions on their way to Spark.
"""

from __future__ import annotations

import re
import sys

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_PATTERN = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\([0-3][0-7]{2})|\\(.)|(''|\"\")", re.DOTALL)


def unquote(written: str) -> str:
    r"""The value of a literal in a statement; ValueError if an escape is no character.

    >>> unquote(r"'it\'s'"), unquote(r"r'\d+'"), unquote(r"'\\d+'")
    ("it's", '\\d+', '\\d+')
    """
    if written[0] in "rR":
        return written[2:-1]
    quote = written[0]

    def value(match: re.Match[str]) -> str:
        four, eight, octal, escaped, doubled = match.groups()
        if four or eight:
            return _character(int(four or eight, 16))
        if octal:
            return chr(int(octal, 8))
        if doubled:
            return quote if doubled[0] == quote else doubled
        return _ESCAPES.get(escaped, escaped)

    return _whole(_PATTERN.sub(value, written[1:-1]))


def _character(code: int) -> str:
    if code > sys.maxunicode:
        raise ValueError(f"\\U{code:08X} is beyond the last character")
    return chr(code)


def _whole(text: str) -> str:
    """Join surrogate halves, as Java writes characters beyond the first 65,536."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16") if not text.isascii() else text
    except UnicodeDecodeError:
        raise ValueError("half a character: \\uD800 to \\uDFFF come in pairs") from None


def quote(value: str) -> str:
    r"""A literal that Spark reads back as the value; a dollar sign is escaped, or Spark would substitute `${...}`.

    >>> quote(r"it's \d")
    "'it\\'s \\\\d'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
