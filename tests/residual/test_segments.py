"""Fragments are made once, also where several threads want the same one."""

from __future__ import annotations

import pytest

from framelift.bytecode.decode import decode
from framelift.residual import segments as module
from framelift.residual.segments import Fragments, Segments

fragments = Fragments()


def broken(a, b, c):
    d = a + b
    return d * c


AT = next(instruction.offset for instruction in decode(broken.__code__) if instruction.opname.startswith("LOAD_FAST"))


def fragment_of(segments: Segments, kind: str) -> object:
    if kind == "resume":
        return segments.resume(AT, [0, 1, 2], [])
    if kind == "step":
        return segments.step(AT, [0, 1, 2], [])
    entry = fragments.of(segments.resume(AT, [0, 1, 2], []).code).entry
    assert entry is not None
    return segments.raising(entry)


@pytest.mark.parametrize(
    ("kind", "maker"), [("resume", "make_resume"), ("step", "make_step"), ("raising", "make_raising")]
)
def test_of_two_at_once_the_first_is_everybodys(kind: str, maker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another thread came to the same place while this one makes its fragment."""
    code = broken.__code__.replace()
    segments = fragments.of(code).segments
    make, others = getattr(module, maker), []

    def interrupted(*args: object) -> object:
        made = make(*args)
        if not others:
            others.append(None)
            others[0] = fragment_of(segments, kind)
        return made

    monkeypatch.setattr(module, maker, interrupted)
    assert fragment_of(segments, kind) is others[0] is fragment_of(segments, kind)


def test_the_segments_of_a_code_are_the_firsts(monkeypatch: pytest.MonkeyPatch) -> None:
    fragments, code = Fragments(), broken.__code__.replace()
    others: list[object] = []

    class Interrupted(Segments):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            if not others:
                others.append(None)
                others[0] = fragments.of(code).segments

    monkeypatch.setattr(module, "Segments", Interrupted)
    assert fragments.of(code).segments is others[0] is fragments.of(code).segments
