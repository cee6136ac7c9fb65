"""The fragments a function falls into at its graph breaks: step functions and resume functions, made once.

A resume function is captured like any function, and breaks like any. What is then made of *its* code is made of the
original's: so a loop comes back to the fragments it already has, and the third iteration captures nothing.

    original code ─┬─ step at 40 ── site ─► resume at 46, {x, y bound}, stack [value]  ── breaks at 40 ─► step at 40
                   └─ step at 58 ── site ─► ...

Fragments live as long as the original. They refer to it by a copy, and sites refer to its fragments weakly, because
entries of a fragment hold step functions, and those their sites.

Several threads may come to want the same fragment at once. A fragment is registered before others can see it, and the
first one to be kept is everybody's.
"""

from __future__ import annotations

import opcode
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

from framelift.bytecode.builder import Builder
from framelift.bytecode.by_code import ByCode
from framelift.bytecode.decode import argument_names, slot_names
from framelift.bytecode.liveness import Liveness
from framelift.bytecode.stack_shapes import HANDLED, NULL, VALUE, StackTag, stack_shapes
from framelift.native import _core
from framelift.residual.resume import Argument, ResumeCode, make_raising, make_resume
from framelift.residual.steps import MakeSite, call_before, make_step
from framelift.residual.suspended import make_suspended

# A frame that may look at its own variables cannot do without those it no longer uses.
_SEE_VARIABLES = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint", "_getframe", "currentframe"})
# Nor can one that makes classes: as long as it keeps them their bases know them.
_MAKES_CLASS = opcode.opmap["LOAD_BUILD_CLASS"]

_Key = tuple[int, tuple[int, ...], tuple[StackTag, ...], bool]
_StepKey = tuple[int, tuple[int, ...], tuple[StackTag, ...], bool, frozenset[int]]


class Segments:
    """What was made of one code object."""

    def __init__(self, code: CodeType, origins: ByCode[Fragment], chains: ByCode[tuple[CodeType, ...]]) -> None:
        self.code = code.replace()
        self._origins = origins
        self._known_chains = chains
        self.own_slots = len(slot_names(code)) - len(code.co_freevars)
        self._keeps_variables = _MAKES_CLASS in code.co_code[::2] or not _SEE_VARIABLES.isdisjoint(code.co_names)
        # Whether operations on tensors were captured in it.
        self.computes = False
        self._liveness: Liveness | None = None
        self._shapes: dict[int, tuple[StackTag, ...]] | None = None
        self._held: frozenset[int] = frozenset()
        self._steps: dict[_StepKey, ResumeCode] = {}
        self._resumes: dict[_Key, ResumeCode] = {}
        self._suspended: dict[_Key, ResumeCode] = {}
        self._chains: dict[tuple[int, ...], Chain] = {}

    def live(self, offset: int) -> tuple[int, ...]:
        """The variables that a frame needs at an instruction, if they are bound."""
        if self._keeps_variables:
            return tuple(range(self.own_slots))
        if self._liveness is None:
            self._liveness = Liveness(self.code)
        return tuple(sorted(self._liveness.at(offset) | self._held))

    def shape(self, offset: int) -> tuple[StackTag, ...]:
        """What the stack is made of at an instruction."""
        if self._shapes is None:
            self._shapes = stack_shapes(self.code)
        return self._shapes[offset]

    def hold(self, slots: Sequence[int]) -> None:
        """From now on these variables go along, used or not: something there may be seen to die."""
        if not self._held.issuperset(slots):
            self._held = self._held.union(slots)

    def step(self, offset: int, slots: Sequence[int], tags: Sequence[StackTag], inner: bool = False) -> ResumeCode:
        """The function that runs one instruction, with these variables bound and this stack. See make_step."""
        key = (offset, tuple(slots), tuple(tags), inner, self._held)  # its sites pass on what is held
        made = self._steps.get(key)
        if made is None:
            made = make_step(self.code, offset, slots, tags, self._make_sites(offset if inner else None), inner)
            _core.never_lift(made.code)
            made = self._steps.setdefault(key, made)
        return made

    def _make_sites(self, call: int | None) -> MakeSite:
        """Sites of a step; behind a call that was left, what its handler needs goes along: it may be entered yet."""

        def make(offset: int, tags: tuple[StackTag, ...]) -> object:
            slots = self.live(offset) if call is None else tuple(sorted({*self.live(offset), *self.live(call)}))
            handled = [depth for depth, tag in enumerate(tags) if tag == HANDLED]
            return _core.Site(_Find(weakref.ref(self), offset, slots, tags), slots, len(tags), tuple(handled[::-1]))

        return make

    def resume(self, offset: int, slots: Sequence[int], tags: Sequence[StackTag]) -> ResumeCode:
        """The function that goes on at an instruction."""
        key = (offset, tuple(slots), tuple(tags), False)
        made = self._resumes.get(key)
        if made is None:
            made = make_resume(self.code, offset, slots, tags)
            # Only the trampoline lifts it: where it was decided that Python runs it the hook must leave it alone.
            _core.never_lift(made.code)
            entry = Entry(offset, made.argument_order, tuple(tags), made.original_offsets)
            self._origins.setdefault(made.code, Fragment(weakref.ref(self), entry))
            made = self._resumes.setdefault(key, made)
        return made

    def suspended(self, offset: int, slots: Sequence[int], tags: Sequence[StackTag]) -> ResumeCode:
        """The generator function whose generators begin at a `yield`. See make_suspended."""
        key = (offset, tuple(slots), tuple(tags), False)
        made = self._suspended.get(key)
        if made is None:
            made = make_suspended(self.code, offset, slots, tags)
            _core.never_lift(made.code)
            made = self._suspended.setdefault(key, made)
        return made

    def raising(self, entry: Entry) -> ResumeCode:
        """The function that raises its last argument where a resume function begins."""
        slots = tuple(sorted(number for kind, number in entry.order if kind == "slot"))
        key = (entry.offset, slots, entry.tags, True)
        made = self._resumes.get(key)
        if made is None:
            made = make_raising(self.code, entry.offset, slots, (*entry.tags, VALUE))
            _core.never_lift(made.code)
            made = self._resumes.setdefault(key, made)
        return made

    def waiting(self, offset: int) -> int:
        """The offset of the call that a frame waits for whose next instruction stands at `offset`."""
        return call_before(self.code, offset)

    def chain(self, parts: Sequence[CodeType]) -> Chain:
        """The code that stands for frames that were left together, the outermost one made of this code."""
        key = tuple(map(id, parts))
        chain = self._chains.get(key)
        if chain is None:
            names = [f".{number}" for number in range(sum(1 + part.co_argcount for part in parts))]
            builder = Builder(tuple(names))
            builder.load_const(None)
            builder.return_value()
            own = self.code
            code = builder.to_code(own.co_name, filename=own.co_filename, firstlineno=own.co_firstlineno)
            chain = Chain(code.replace(co_qualname=own.co_qualname), tuple(parts))
            self._known_chains.setdefault(chain.code, chain.parts)
            chain = self._chains.setdefault(key, chain)
        return chain


@dataclass(frozen=True, slots=True)
class _Find:
    """What a site asks for the resume function that fits a frame."""

    segments: weakref.ref[Segments]
    offset: int
    slots: tuple[int, ...]
    tags: tuple[StackTag, ...]

    def __call__(self, pattern: bytes) -> tuple[CodeType, tuple[int, ...]]:
        """`pattern` has a byte for each of the slots and each item of the stack: whether something is there."""
        segments = self.segments()
        assert segments is not None, "the trampoline keeps the fragments of what it runs"
        bound = [slot for slot, there in zip(self.slots, pattern, strict=False) if there]
        stack = zip(self.tags, pattern[len(self.slots) :], strict=True)
        tags: list[StackTag] = [tag if there else NULL for tag, there in stack]
        resume = segments.resume(self.offset, bound, tags)
        order = [number if kind == "slot" else ~number for kind, number in resume.argument_order]
        return resume.code, tuple(order)


@dataclass(frozen=True, slots=True)
class Chain:
    """Frames that were left together: their resume functions, outermost first, as one thing to capture.

    `code` is never run: it owns the entries. Its arguments are, for each part, the function and the arguments of that.
    All parts but the innermost wait for a result, which is the topmost item of their stack.
    """

    code: CodeType
    parts: tuple[CodeType, ...]


class Entry(NamedTuple):
    """Where a resume function enters the original, what its arguments are, and where its instructions stand there."""

    offset: int
    order: tuple[Argument, ...]
    tags: tuple[StackTag, ...]
    original_offsets: dict[int, int]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A code object as a fragment of another, or of itself: where its instructions stand there."""

    _segments: weakref.ref[Segments]
    entry: Entry | None = None

    @property
    def segments(self) -> Segments:
        segments = self._segments()
        assert segments is not None, "fragments do not outlive what they are fragments of"
        return segments

    @property
    def is_whole(self) -> bool:
        return self.entry is None

    def offset(self, own: int) -> int | None:
        """Where the instruction at an offset of the fragment stands in the original; None: it was added."""
        return own if self.entry is None else self.entry.original_offsets.get(own)


class Fragments:
    """The fragments of all functions that broke."""

    def __init__(self) -> None:
        self._origins: ByCode[Fragment] = ByCode()
        self._segments: ByCode[Segments] = ByCode()
        self._chains: ByCode[tuple[CodeType, ...]] = ByCode()

    def of(self, code: CodeType) -> Fragment:
        """What a code object is a fragment of: its own, unless it was made here."""
        fragment = self._origins.get(code)
        if fragment is None:
            segments = self._segments.setdefault(code, Segments(code, self._origins, self._chains))
            fragment = self._origins.setdefault(code, Fragment(weakref.ref(segments)))
        return fragment

    def argument_names(self, code: CodeType) -> tuple[str, ...]:
        """What the argument slots of a code hold, in words: `x`, or `stack[0]`, or for a chain `f.x`."""
        if self.is_chain(code):
            parts = self.parts(code)
            return tuple(f"{part.co_name}.{name}" for part in parts for name in ("", *self.argument_names(part)))
        fragment = self._origins.get(code)
        if fragment is None or fragment.entry is None:
            return argument_names(code)
        names, entry = slot_names(code), fragment.entry
        return tuple(names[number] if kind == "slot" else f"stack[{number}]" for kind, number in entry.order)

    def is_fragment(self, code: CodeType) -> bool:
        """Whether a code object was made here."""
        fragment = self._origins.get(code)
        return self.is_chain(code) or (fragment is not None and not fragment.is_whole)

    def is_chain(self, code: CodeType) -> bool:
        return self._chains.get(code) is not None

    def parts(self, chain: CodeType) -> tuple[CodeType, ...]:
        """The parts of a chain, by its code."""
        parts = self._chains.get(chain)
        assert parts is not None, f"{chain} is no chain"
        return parts
