"""What the C extension offers; its sources stand beside this file and in the folders."""

from collections import OrderedDict
from collections.abc import Callable
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, Self, Unpack, final

from framelift.native.protocol import Context, Functions, Judge

BUILT_FOR: tuple[int, int]

# Returned by residual code whose graph raised: run the function itself.
RERUN: object

# -- what C asks of Python (protocol.c)

ASKED_BY_NAME: tuple[str, ...]

def connect(**functions: Unpack[Functions]) -> None: ...
def connected() -> dict[str, FunctionType | None]: ...

# -- calls that Python runs (frames/fallbacks.c)

def untold_calls() -> dict[str, int]: ...
def tell_again() -> None: ...
def give_up(judge: Judge | None, error: BaseException | None, /) -> None: ...

# -- lifted callables (frames/entry.c, bind.c)

@final
class Lifted:
    """Lifted(function, table, miss, fullgraph=False): a callable that enters the specialisations of `function`.

    miss(lifted, slots) is asked for an entry when none of the table fits a call; None runs the function,
    NotImplemented runs it with the frames it calls left alone. Attributes that are not set here are the function's.
    With `fullgraph` entries are used under a debugger, too.
    """

    def __new__(
        cls,
        function: Callable[..., Any],
        table: Table,
        miss: Callable[[Lifted, tuple[Any, ...]], Any],
        fullgraph: bool = False,
    ) -> Self: ...
    @property
    def __wrapped__(self) -> FunctionType: ...
    @property
    def table(self) -> Table: ...
    @property
    def miss(self) -> Callable[[Lifted, tuple[Any, ...]], Any]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

# -- lifted modules (module_call.c)

@final
class ModuleCall:
    """ModuleCall(slot, of_class, base, watched): the `__call__` of a class of lifted modules.

    The class answers with `of_class`, an instance with what it has in `slot`; but with watched(instance) while `base`,
    the class of all modules, has another `__call__` than it had.
    """

    def __new__(
        cls, slot: MemberDescriptorType, of_class: Callable[..., Any], base: type, watched: Callable[[Any], Any]
    ) -> Self: ...
    @property
    def slot(self) -> MemberDescriptorType: ...
    @property
    def of_class(self) -> Callable[..., Any]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any: ...

def outermost_calls() -> int: ...

class suspended:  # noqa: N801
    """Inside `with suspended():` lifted callables act as their functions on this thread, and no frame is lifted."""

    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

def untold(callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...

class undisturbed:  # noqa: N801
    """Inside `with undisturbed():` signals wait; nests. At its end their handlers run."""

    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class disturbed:  # noqa: N801
    """Inside `with disturbed():` signals come as ever, also within `with undisturbed():`."""

    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

def let_signals_in() -> None: ...
def hold_signals(flag: bool, /) -> None: ...
def holds_signals() -> bool: ...
def main_thread_can_be_exchanged(set_handler: Callable[[int, Any], Any], main_thread: int | None, /) -> bool: ...
def is_unwatched(obj: object, /) -> bool: ...
def is_enum_member(obj: object, /) -> bool: ...
def register_array_type(cls: type, /) -> None: ...
def can_look_up(mapping: dict[Any, Any], key: object, /) -> bool: ...
def ordered_keys(mapping: OrderedDict[Any, Any], /) -> list[Any]: ...
def is_same_function(a: object, b: object, /) -> bool: ...
def forget_subclass(base: type, cls: type, /) -> None: ...
def store_attributes(instance: object, names: tuple[str, ...], /, *values: Any) -> None: ...
def begin_suspend() -> None: ...
def end_suspend() -> None: ...
def is_suspended() -> bool: ...
def follow_stance(
    ask: Callable[[], bool], asks: bool, dict: dict[str, Any], instead: Callable[[Any], Any] | None, /
) -> None: ...

# -- entries and tables (frames/table.c, code_tables.c)

@final
class Entry:
    """One specialisation of a code object: a guard tree and the residual function it admits to."""

    label: Any
    @property
    def tree(self) -> GuardTree: ...
    @property
    def table(self) -> Table | None: ...
    @property
    def residual(self) -> FunctionType: ...
    @property
    def hits(self) -> int: ...
    @property
    def dead(self) -> bool: ...

@final
class Table:
    """The entries of one code object under one key. Code objects own their tables."""

    skip: bool
    def __new__(cls, key: object) -> Self: ...
    @property
    def key(self) -> Any: ...
    @property
    def code(self) -> CodeType | None: ...
    @property
    def entries(self) -> list[Entry]: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    def install(
        self,
        tree: GuardTree,
        residual: Callable[..., Any],
        label: object = None,
        direct: tuple[Any, ...] | None = None,
    ) -> Entry: ...
    def remove(self, entry: Entry) -> None: ...
    def clear(self) -> None: ...

def table_for(code: CodeType, key: object, /) -> Table: ...
def tables_of(code: CodeType, /) -> list[Table]: ...
def all_tables() -> list[Table]: ...
def never_lift(code: CodeType, /) -> None: ...

# -- the frame hook (frames/hook.c)

def run_hooked(
    context: Context | None,
    callable: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any: ...

class hooked:  # noqa: N801
    """hooked(context, kept=None): inside `with hooked(context):` frames are lifted as by run_hooked()."""

    def __new__(cls, context: Context | None, kept: object = None) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

# -- after a graph break (frames/tail.c)

@final
class Tail:
    """What to call instead of returning; only the trampoline sees one."""

    @property
    def function(self) -> FunctionType: ...
    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def inner(self) -> Tail | None: ...

def step(context: Context | None, kept: tuple[object, ...], function: FunctionType, /, *args: Any) -> Tail: ...
def given(function: FunctionType, /, *args: Any) -> Callable[[], Any]: ...

@final
class Site:
    """Called by step code to leave its frame, with these variables and this much stack, and the handlers it is in."""

    def __new__(
        cls,
        find: Callable[[bytes], tuple[CodeType, tuple[int, ...]]],
        slots: tuple[int, ...],
        depth: int,
        handled: tuple[int, ...],
        /,
    ) -> Self: ...
    def __call__(self) -> Tail: ...

def hook_state() -> dict[str, Any]: ...
def hook_always_call(flag: bool, /) -> None: ...
def check_layout(function: Callable[..., Any], first: object, second: object, /) -> None: ...

# -- guard trees (guards/)

ACCESS_ARG: int
ACCESS_FUNCTION: int
ACCESS_KNOWN: int
ACCESS_DICT_ITEM: int
ACCESS_INSTANCE_DICT: int
ACCESS_TYPE_LOOKUP: int
ACCESS_TYPE_OF: int
ACCESS_LIST_ITEM: int
ACCESS_TUPLE_ITEM: int
ACCESS_CELL_CONTENTS: int
ACCESS_FUNC_CODE: int
ACCESS_FUNC_GLOBALS: int
ACCESS_FUNC_CLOSURE: int
ACCESS_FUNC_DEFAULTS: int
ACCESS_FUNC_KWDEFAULTS: int
ACCESS_METHOD_SELF: int
ACCESS_METHOD_FUNC: int
ACCESS_MODULE_DICT: int
ACCESS_SLOT: int
ACCESS_GETATTR: int
ACCESS_LRU_RESULT: int
ACCESS_CONTEXT_VALUE: int
ACCESS_CONTEXT_OWN: int
ACCESS_AHEAD: int
ACCESS_ITERATED: int
ACCESS_DEQUE_ITEM: int
ACCESS_PROXIED: int
ACCESS_REDUCED: int
ACCESS_RESULT: int
ACCESS_REFERENT: int
ACCESS_OFFSET: int
ACCESS_THREAD_DICT: int
ACCESS_AS_TENSOR: int
ACCESS_AS_PLAIN: int
CHECK_TYPE: int
CHECK_IS: int
CHECK_NOT_IS: int
CHECK_EQUALS: int
CHECK_COMPARE: int
CHECK_LENGTH: int
CHECK_DICT_KEYS: int
CHECK_KEY_ABSENT: int
CHECK_NONEMPTY: int
CHECK_SET_EQUALS: int
CHECK_MEMBER: int
CHECK_NO_MEMBER: int
CHECK_TYPE_ABSENT: int
CHECK_HASATTR: int
CHECK_NO_ATTR: int
CHECK_CELL_EMPTY: int
CHECK_TENSOR: int
CHECK_REGISTRATIONS: int
CHECK_NOTHING_AHEAD: int
CHECK_CONTEXT_UNSET: int
CHECK_SET_ORDER: int
CHECK_TYPE_KEYS: int
CHECK_TYPE_LACKS: int
CHECK_TYPE_OWNS: int
CHECK_UNWATCHED: int
REL_SAME: int
REL_DISTINCT: int
REL_OVERLAP: int
REL_DISJOINT: int
REL_PROGRAM: int
LOAD_VALUE: int
LOAD_SIZE: int
LOAD_STRIDE: int
LOAD_LENGTH: int
LOAD_ITEM: int
PROGRAM_CONST: int
PROGRAM_LOAD: int
PROGRAM_CHECK: int
PROGRAM_ADD: int
PROGRAM_SUB: int
PROGRAM_MUL: int
PROGRAM_FLOORDIV: int
PROGRAM_MOD: int
PROGRAM_POW: int
PROGRAM_TRUEDIV: int
PROGRAM_MIN: int
PROGRAM_MAX: int
PROGRAM_EQ: int
PROGRAM_NE: int
PROGRAM_LT: int
PROGRAM_LE: int
PROGRAM_AND: int
PROGRAM_OR: int
PROGRAM_SAME: int
PROGRAM_FLOATPOW: int
PROGRAM_NOT: int
PROGRAM_TO_FLOAT: int
PROGRAM_FLOOR: int
PROGRAM_CEIL: int
PROGRAM_TRUNC: int
PROGRAM_SINGLE: int
FAILED_STATE: int
FAILED_DEAD: int

_Node = tuple[int, int, Any, list[tuple[int, Any]], int]

@final
class GuardTree:
    """Facts about the inputs of a frame. Nodes are (parent, accessor, argument, checks, index fetched into or -1)."""

    def __new__(
        cls,
        nodes: list[_Node],
        relations: list[tuple[int, Any]],
        nslots: int,
        nfetched: int,
        state: TorchState | None = None,
        names: Any = None,
    ) -> Self: ...
    @property
    def nslots(self) -> int: ...
    @property
    def nfetched(self) -> int: ...
    @property
    def nodes(self) -> list[_Node]: ...
    @property
    def relations(self) -> list[tuple[int, Any]]: ...
    @property
    def state(self) -> TorchState | None: ...
    @property
    def names(self) -> Any: ...
    strict: bool
    @property
    def dead(self) -> bool: ...
    def check(self, slots: tuple[Any, ...], function: Any, /) -> tuple[Any, ...] | None: ...
    def check_strict(self, slots: tuple[Any, ...], function: Any, /) -> tuple[Any, ...] | None: ...
    def explain(self, slots: tuple[Any, ...], function: Any, /) -> tuple[int, int, str] | None: ...
    def memo_info(self) -> dict[str, int]: ...

@final
class ByParts:
    """An object a guard tree cannot hold weakly, and so knows by its address and parts."""

    @property
    def address(self) -> int: ...

def dict_tags_reliable() -> bool: ...
def is_slot(descriptor: object, /) -> bool: ...
def read_slot(object: object, /, *owner_offset_otherwise: Any) -> Any: ...
def is_constant_type(type: Any, /) -> bool: ...
def shape_hash(slots: tuple[Any, ...], /) -> int: ...

# -- tensors and torch's state (torch/)

@final
class TorchState:
    """A snapshot of torch's state; made by torch_state()."""

    @property
    def values(self) -> Any: ...
    def matches(self) -> bool: ...
    def describe(self) -> Any: ...

def torch_state() -> TorchState: ...
def native_state() -> Any: ...
def register_state(libraries: list[str], parts: list[Any], /) -> Any: ...
def read_getters(flag: bool, /) -> None: ...
def getters_read() -> list[str]: ...
def register_tensors(*parts: Any) -> None: ...
def calibrate_tensors(libraries: list[str], probes: list[Any], /) -> str | None: ...
def restrict_tensors(what: str, /) -> None: ...
def set_dtype_codes(codes: dict[Any, tuple[int, int]], /) -> None: ...
def tensor_access_info() -> dict[str, Any]: ...
def tensor_facts(tensor: object, /) -> Any: ...
def tensor_read(tensor: Any, /) -> tuple[Any, ...]: ...
def tensors_overlap(a: Any, b: Any, /) -> bool: ...
def tensor_span(tensor: Any, /) -> tuple[int, int] | None: ...
