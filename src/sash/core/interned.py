"""Values with one object each: making an equal value gives the existing object.

Windows, partials and shapes of queries are keys of dictionaries on the path of every execution. Equality is identity
there, so looking a key up calls no Python.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

known: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
# Reentrant: the collector may run in the middle of a look-up, and a finalizer may make such a value.
_lock = threading.RLock()


class Interning(type):
    """The class of classes whose equal values are one object: frozen dataclasses with `eq=False`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Name(InternedValue):
    ...     text: str
    >>> Name("packets") is Name("packets")
    True
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        with _lock:
            return known.setdefault((cls, *made.values), made)


class InternedValue(metaclass=Interning):
    """The common part of such values."""

    @property
    def values(self) -> tuple[Any, ...]:
        """The arguments of the class; the fields that are compared."""
        return tuple([getattr(self, name) for name in self.__match_args__])  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle so that another process, too, has one object."""
        return type(self), self.values
