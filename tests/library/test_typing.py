"""`typing` and `contextvars`, in one graph."""

from __future__ import annotations

import contextvars
import typing

from tests.values.programs import Programs

programs = Programs()


TV = typing.TypeVar("TV", bound=int)


class Box(typing.Generic[TV]):
    def __init__(self, v):
        self.v = v

    def get(self) -> TV:
        return self.v


class TD(typing.TypedDict, total=False):
    a: int
    b: str


class NTy(typing.NamedTuple):
    a: int
    b: typing.List[int] = []

    def tot(self):
        return self.a


@typing.runtime_checkable
class Pr(typing.Protocol):
    def get(self): ...


NewI = typing.NewType("NewI", int)


def ann(a: int, b: "str" = "x", *c: typing.Any) -> typing.Optional[int]: ...


cv = contextvars.ContextVar("cv", default=3)

cw = contextvars.ContextVar("cw")


@programs(fullgraph=True)
def constructs(x):
    return (
        x * Box[int](3).get(),
        Box(x).v,
        TD(a=1),
        NTy(1),
        NTy(a=2).tot(),
        isinstance(Box(1), Pr),
        isinstance(3, Pr),
        NewI(5),
        typing.cast(int, "a"),
        typing.get_origin(list[int]),
        typing.get_args(typing.Dict[str, int]),
        typing.Optional[int],
        typing.Union[int, str, int],
        typing.List[int],
        typing.Callable[[int], str],
        typing.Literal[1, "a"],
        typing.get_type_hints(ann),
        typing.TYPE_CHECKING,
        typing.Tuple[int, ...],
        typing.Any,
        typing.Union[int, None] == typing.Optional[int],
        TV.__name__,
        TV.__covariant__,
        typing.get_args(typing.Annotated[int, "m"]),
        typing.is_typeddict(TD),
        TD.__annotations__,
        NTy._field_defaults,
    )


@programs(fullgraph=True)
def a_variable_of_the_program(x):
    v = contextvars.ContextVar("loc", default=x)
    t = v.set(x + 1)
    return (v.get(), v.name)


@programs(fullgraph=True)
def a_variable_from_outside(x):
    cw.set(x.shape[0])
    return (x * cw.get(), contextvars.copy_context().get(cw))


test_programs = programs.test()
