"""One bytecode instruction, and the exception handler that covers it.

Instructions are compared and hashed by identity: jumps and handlers refer to instruction *objects*, so a list of
them can be edited freely and only gets offsets again when it is assembled.
"""

from typing import Any, Optional

from framelift.bytecode.opcodes import NAMES, OPMAP

#: (line, end line, column, end column) as `code.co_positions()` gives them.
Positions = tuple[int | None, int | None, int | None, int | None]
NO_POSITIONS: Positions = (None, None, None, None)


class ExceptionEntry:
    """One row of the exception table: where an exception goes and what the stack looks like there.

    The stack is cut to `depth` items, then the offset of the raising instruction (if `lasti`) and the exception are
    pushed. A row covers the neighbouring instructions whose `handler` is this very object.
    """

    __slots__ = ("target", "depth", "lasti")

    def __init__(self, target: "Instruction", depth: int, lasti: bool) -> None:
        self.target = target
        self.depth = depth
        self.lasti = lasti

    def __repr__(self) -> str:
        lasti = " lasti" if self.lasti else ""
        return f"<handler {self.target.opname}@{self.target.offset} depth {self.depth}{lasti}>"


class Instruction:
    """One instruction, with its EXTENDED_ARG prefixes and caches folded in.

    * `arg` is the whole operand, None for opcodes without one. For jumps it is computed when assembling.
    * `argval` is the constant, name or slot name the operand stands for, else None.
    * `target` is the instruction a jump goes to.
    * `offset` is the byte offset the instruction had when it was decoded or last assembled.
    * `width` is the least number of EXTENDED_ARG prefixes to write: compilers sometimes write more than needed.

    >>> Instruction.make("LOAD_CONST", 0, argval=None)
    <LOAD_CONST 0 (None)>
    """

    __slots__ = ("opcode", "opname", "arg", "argval", "target", "positions", "handler", "offset", "width")

    def __init__(
        self,
        opcode: int,
        opname: str,
        arg: int | None = None,
        argval: Any = None,
        target: Optional["Instruction"] = None,
        positions: Positions = NO_POSITIONS,
        handler: ExceptionEntry | None = None,
        offset: int | None = None,
        width: int = 0,
    ) -> None:
        self.opcode = opcode
        self.opname = opname
        self.arg = arg
        self.argval = argval
        self.target = target
        self.positions = positions
        self.handler = handler
        self.offset = offset
        self.width = width

    @classmethod
    def make(cls, opname: str, arg: int | None = None, **fields: Any) -> "Instruction":
        """An instruction by name; an unknown name is a KeyError."""
        return cls(OPMAP[opname], opname, arg, **fields)

    @property
    def line(self) -> int | None:
        return self.positions[0]

    def become(self, opcode: int) -> None:
        """Turn into another opcode with the same operand meaning (the other direction of a jump)."""
        self.opcode = opcode
        self.opname = NAMES[opcode]

    def copy(self) -> "Instruction":
        """A new instruction with the same fields; target and handler still refer to the old ones."""
        return Instruction(
            self.opcode,
            self.opname,
            self.arg,
            self.argval,
            self.target,
            self.positions,
            self.handler,
            self.offset,
            self.width,
        )

    def __repr__(self) -> str:
        at = "" if self.offset is None else f"{self.offset}: "
        if self.target is not None:
            return f"<{at}{self.opname} to {self.target.opname}@{self.target.offset}>"
        arg = "" if self.arg is None else f" {self.arg}"
        value = f" ({self.argval!r})" if self.argval is not None or self.opname == "LOAD_CONST" else ""
        return f"<{at}{self.opname}{arg}{value}>"
