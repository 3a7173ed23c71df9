"""A strict reader of Prometheus' text format: it refuses everything unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Labels = frozenset[tuple[str, str]]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_HELP = re.compile(rf"# HELP ({_NAME}) (.*)")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (counter|gauge)")
_SAMPLE = re.compile(rf"({_NAME})(\{{.*\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass
class Family:
    about: str
    kind: str
    samples: dict[Labels, float] = field(default_factory=dict)


def parsed(text: str) -> dict[str, Family]:
    """The families by name; each has one HELP, one TYPE, and then all its samples."""
    assert not text or text.endswith("\n")
    families: dict[str, Family] = {}
    lines = text.split("\n")[:-1]
    while lines:
        about = _HELP.fullmatch(lines.pop(0))
        kind = _TYPE.fullmatch(lines.pop(0))
        assert about is not None and kind is not None and about[1] == kind[1] and about[1] not in families
        family = families[about[1]] = Family(_plain(about[2]), kind[2])
        while lines and not lines[0].startswith("#"):
            sample = _SAMPLE.fullmatch(lines.pop(0))
            assert sample is not None and sample[1] == about[1]
            labels = _labels(sample[2])
            assert labels not in family.samples, "a series comes once"
            family.samples[labels] = float(sample[3].replace("Inf", "inf"))
        assert family.samples
    return families


def _labels(text: str | None) -> Labels:
    if text is None:
        return frozenset()
    inner, found = text[1:-1], []
    while inner:
        match = _LABEL.match(inner)
        assert match is not None, inner
        found.append((match[1], _plain(match[2])))
        inner = inner[match.end() :]
        assert not inner or inner.startswith(",")
        inner = inner.removeprefix(",")
    assert len({name for name, _ in found}) == len(found)
    return frozenset(found)


def _plain(text: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES[match[0]], text)
