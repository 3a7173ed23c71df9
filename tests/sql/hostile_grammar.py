"""Statements as an attacker, or a program with a defect, would send them.

    sentences     of the grammar of docs/language.md, whose names, types and clauses may or may not fit
    examples      those of docs/language.md, which do fit
    stumbled      either of them with words left out, doubled, exchanged or put in from elsewhere
    words         in any order; any characters

Everything is chosen by a `random.Random`: a test gives one of Hypothesis' own, which can make a text smaller that
fails, a long run an ordinary one, which is faster.

The grammar is in hostile_grammar.txt. A rule is a name, and below it the ways to say it, one in a line; `3 x` before
one makes it three times as likely, `=` begins a line of words that are a way each. `<name>` is another rule, `<name>?`
may be left out, `<name>*` stands one to three times, with commas between; `9{50}` are fifty nines. A sentence that
has become long goes on with the shortest ways.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

_REFERENCE = Path(__file__).parents[2] / "docs" / "language.md"
_GRAMMAR = Path(__file__).with_suffix(".txt")
# After this many rules the shortest way is taken.
_ENOUGH = 70


def _words(text: str) -> list[str]:
    return text.split()


def _read(text: str) -> dict[str, list[str]]:
    rules: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if not line.startswith(" "):
            ways = rules[line] = []
            continue
        way = re.sub(r"(\w)\{(\d+)\}", lambda long: long[1] * int(long[2]), line.strip())
        often = re.match(r"(\d+) x (.*)", way)
        if way.startswith("= "):
            ways += _words(way[2:])
        else:
            ways += [often[2]] * int(often[1]) if often else [way.replace("(nothing)", "")]
    return rules


_RULES = _read(_GRAMMAR.read_text(encoding="utf-8"))
_WORDS = _words("""SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT WITH BOUNDS UNION ALL EXCEPT INTERSECT APPROX GROUPS ON
    AS JOIN LEFT OUTER CROSS USING IN NOT EXISTS BETWEEN CASE WHEN THEN ELSE END CAST DISTINCT OVER PARTITION ROWS
    RANGE SLIDE EXACTLY LAG INTERNAL NOW UNBOUNDED WINDOW STEP SINCE MIDNIGHT ARRIVAL CREATE STREAM TABLE INDEX
    NONRETROACTIVE PRIMARY KEY REGISTER QUERY LIFETIME PRIORITY SYNOPSIS SHOW QUERIES DESCRIBE DROP INSERT INTO VALUES
    UPDATE SET DELETE EXECUTION EXPLAIN TIMESTAMP DELAY GRANULE OFFSET CLOSED LATE REVISE IDLE AFTER KEEP OPTIONS
    Istream Dstream Rstream Wstream restore ARCHIVE ALTER UP TO EVERY AUTO CHRONOLOGICAL ROUND ROBIN REBUILD NOREBUILD
    REPLACE PAUSE RESUME ALLOW INCOMPLETE
    STORED MEMORY SHED RANDOM INDEXES ARCHIVES TABLES LATERAL VIEW TABLESAMPLE PIVOT UNPIVOT QUALIFY CLUSTER SORT
    DISTRIBUTE FILTER WITHIN IGNORE RESPECT
    NULLS FIRST ROLLUP CUBE GROUPING SETS NATURAL SEMI ANTI FULL MAX JUMP ANY SOME ESCAPE INTERVAL ARRAY STRUCT x X 4x4
    ( ) [ ] { } , ; . * + - / % = < > ! ~ & | ^ : :: -> => ? @ # $ \\ ' " ` /* */ -- /*+""")
_ODD = "\0\t\n\r\"'`\\;()[]{}<>-/*,.%_~|&^!?@#$: aA0²٣é\u00ad\u200b\u2028\ud800\udfff😀\ufeff\x7f"
# A part of a way: a text, or a rule and how often it stands there.
_Part = tuple[str, str]


def _parts(way: str) -> list[_Part]:
    """`x <a>*` becomes [("x ", " "), ("a", "*")]: the blank says that it is a text and no rule."""
    found: list[_Part] = []
    for text, name, often in re.findall(r"([^<]+|<(?![a-z_]+>))|<([a-z_]+)>([?*]?)", way):
        found.append((text, " ") if text else (name, often))
    return found


_WAYS = {name: [_parts(way) for way in ways] for name, ways in _RULES.items()}


def _examples() -> list[str]:
    scripts = re.findall(r"```sql\n(.*?)```", _REFERENCE.read_text(encoding="utf-8"), re.DOTALL)
    without_comments = re.sub(r" *--.*", "", "\n".join(scripts))
    return [text.strip() for text in without_comments.split(";") if text.strip()]


EXAMPLES = _examples()


class Sentences:
    """Texts by chance."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._said = 0

    def sentence(self) -> str:
        self._said = 0
        return self._say("statement")

    def _say(self, name: str) -> str:
        self._said += 1
        ways = _WAYS[name]
        if self._said > _ENOUGH:
            ways = _SHORTEST[name]
        return "".join([self._part(*part) for part in self._random.choice(ways)])

    def _part(self, text: str, often: str) -> str:
        if often == " ":
            return text
        if often == "?":
            return self._say(text) if self._random.random() < 0.3 and self._said < _ENOUGH else ""
        if often == "*":
            most = 3 if self._said < _ENOUGH else 1
            return ", ".join([self._say(text) for _ in range(self._random.randint(1, most))])
        return self._say(text)

    def stumbled(self) -> str:
        """A sentence, or an example, that someone has stumbled over."""
        random = self._random
        text = random.choice(EXAMPLES) if random.random() < 0.4 else self.sentence()
        words = re.findall(r"\w+|\s+|.", text, re.DOTALL)
        for _ in range(random.randint(1, 4)):
            place = random.randint(0, len(words))
            match random.randint(0, 5):
                case 0:
                    del words[place : place + random.randint(1, 3)]
                case 1:
                    words[place:place] = words[place : place + 4]
                case 2:
                    words.insert(place, f" {random.choice(_WORDS)} ")
                case 3:
                    words.insert(place, self._characters(3))
                case 4:
                    rule = random.choice(["expression", "constant", "column", "window", "duration", "select"])
                    words[place : place + 1] = [f" {self._say(rule)} "]
                case _:
                    other = random.randint(0, len(words))
                    one, two = slice(place, place + 1), slice(other, other + 1)
                    words[one], words[two] = words[two], words[one]
        return "".join(words)

    def words(self) -> str:
        rules = ("column", "constant", "duration", "source", "window")
        count = self._random.randint(1, 20)
        return " ".join(
            [
                self._random.choice(_WORDS)
                if self._random.random() < 0.6
                else self._random.choice(_RULES[self._random.choice(rules)])
                for _ in range(count)
            ]
        )

    def characters(self) -> str:
        return self._characters(40)

    def _characters(self, most: int) -> str:
        random = self._random
        return "".join(
            [
                random.choice(_ODD) if random.random() < 0.5 else chr(random.randint(0, 0x10FFFF))
                for _ in range(random.randint(0, most))
            ]
        )

    def text(self) -> str:
        """Any of these."""
        chance = self._random.random()
        if chance < 0.35:
            return self.sentence()
        if chance < 0.85:
            return self.stumbled()
        return self.words() if chance < 0.95 else self.characters()


def _depths() -> dict[str, int]:
    """How many rules lie below each other at least, until there is nothing but text."""
    found: dict[str, int] = {}
    while len(found) < len(_WAYS):
        known = {
            name: 1 + min(deep)
            for name, ways in _WAYS.items()
            if name not in found and (deep := [_depth(way, found) for way in ways if _is_known(way, found)])
        }
        assert known, f"rules without an end: {_WAYS.keys() - found.keys()}"
        found |= known
    return found


def _rules_of(way: list[_Part]) -> list[str]:
    return [name for name, often in way if often not in (" ", "?")]


def _is_known(way: list[_Part], found: dict[str, int]) -> bool:
    return all(name in found for name in _rules_of(way))


def _depth(way: list[_Part], found: dict[str, int]) -> int:
    return max((found[name] for name in _rules_of(way)), default=0)


_DEPTHS = _depths()
# The ways of a rule that end soonest.
_SHORTEST = {name: [way for way in ways if _depth(way, _DEPTHS) == _DEPTHS[name] - 1] for name, ways in _WAYS.items()}
