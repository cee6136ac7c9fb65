"""What is kept about code objects as long as they live."""

import weakref
from types import CodeType
from typing import Generic, TypeVar

T = TypeVar("T")


class ByCode(Generic[T]):
    """A mapping from code objects, by identity: they compare by contents, which is slow and says two places are one.

    >>> kept = ByCode()
    >>> code = (lambda: 1).__code__
    >>> kept[code] = "one"
    >>> kept.get(code), kept.get((lambda: 1).__code__)
    ('one', None)
    >>> del code
    >>> len(kept)
    0
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[CodeType], T]] = {}

    def get(self, code: CodeType) -> T | None:
        found = self._kept.get(id(code))
        return found[1] if found is not None and found[0]() is code else None

    def __setitem__(self, code: CodeType, value: T) -> None:
        key, kept = id(code), self._kept
        kept[key] = (weakref.ref(code, lambda _: kept.pop(key, None)), value)

    def setdefault(self, code: CodeType, value: T) -> T:
        """What is kept about the code; `value`, if that was nothing. Of several threads one is the first."""
        key, kept = id(code), self._kept
        return kept.setdefault(key, (weakref.ref(code, lambda _: kept.pop(key, None)), value))[1]

    def __len__(self) -> int:
        return len(self._kept)
