"""The code of an exported graph: it takes the arguments of the original function, and returns what that does.

FX writes the first and the last line of a module's `forward` by a `CodeGen`. This one takes containers apart into the
inputs of the graph and checks that what the graph knows as constants is what it was.

    >>> call = Call.of(inspect.signature(lambda x, scale=2: None), {"x": [torch.ones(2)], "scale": 2})
    >>> call.takes = (0,)
    >>> call.inputs([torch.zeros(2)], 2)
    [tensor([0., 0.])]
    >>> call.inputs([torch.zeros(2)], 3)
    Traceback (most recent call last):
    ValueError: scale was 2 when it was exported, now 3
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx.graph import CodeGen
from torch.utils import _pytree as pytree

from framelift.graph.emission.argument_checks import ArgumentChecks
from framelift.graph.emission.runtime_asserts import NOT_SO
from framelift.shapes.dynamic_shapes import CommonSizes

# Values whose text gives them back.
_LITERAL = (type(None), bool, int, str)
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_CONSTANT = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)


class Call(CodeGen):
    """How a function is called: parameters, the structure of its arguments, and which of their leaves a graph takes."""

    def __init__(self, signature: inspect.Signature, spec: Any, names: list[str], leaves: list[Any]) -> None:
        super().__init__()
        self.signature = signature
        # The leaves of the arguments: what they are called, and those that are constants.
        self.names = names
        self.leaves = leaves
        self._spec = spec
        # The leaves that are inputs of the graph, in its order.
        self.takes: tuple[int, ...] = ()
        # What makes a tensor of such a leaf, an array.
        self.conversions: dict[int, Callable[[Any], torch.Tensor]] = {}
        # Pairs of leaves that are one object.
        self._twins = _twins(leaves)
        # What is to be checked of the arguments.
        self.checks: ArgumentChecks | None = None
        self.common_sizes: CommonSizes | None = None
        # The structure of the result, where FX cannot write it.
        self.result: pytree.TreeSpec | None = None

    @classmethod
    def of(cls, signature: inspect.Signature, arguments: Mapping[str, Any]) -> Call:
        """The call with these arguments, all of them."""
        with_paths, spec = pytree.tree_flatten_with_path(tuple(arguments.values()))
        parameters = list(arguments)
        names = [parameters[path[0].idx] + pytree.keystr(path[1:]) for path, _ in with_paths]
        return cls(signature, spec, names, [leaf for _, leaf in with_paths])

    def forget_values(self) -> None:
        """Let go of the tensors and other objects of the call; of constants it remembers what they are."""
        takes = set(self.takes)
        self.leaves = [
            leaf if type(leaf) in _CONSTANT and i not in takes else ... for i, leaf in enumerate(self.leaves)
        ]

    # -- what a call does --------------------------------------------------------------------------------------------

    def inputs(self, *arguments: Any) -> list[Any]:
        """The inputs of the graph among the arguments, given in the order of the parameters."""
        given = zip(self.signature.parameters.values(), arguments, strict=True)
        arguments = tuple(p.default if value is ... else value for p, value in given)
        leaves, spec = pytree.tree_flatten(arguments)
        if spec != self._spec:
            raise TypeError(f"the arguments have another structure than at export: {spec} instead of {self._spec}")
        for name, known, leaf in zip(self.names, self.leaves, leaves, strict=True):
            if known is not ... and type(known) in _CONSTANT and not _same(known, leaf):
                raise ValueError(f"{name} was {known!r} when it was exported, now {_shown(leaf)}")
        for first, second in self._twins:
            if leaves[first] is not leaves[second]:
                raise ValueError(f"{self.names[first]} and {self.names[second]} were one object when it was exported")
        if self.checks is not None:
            self._check(self.checks, arguments)
        if self.common_sizes is not None and not any(isinstance(leaf, torch.fx.Proxy) for leaf in leaves):
            unequal = self.common_sizes.failure(dict(zip(self.names, leaves, strict=True)))
            if unequal is not None:
                raise RuntimeError(f"{NOT_SO}{unequal}")
        return [self.conversions[i](leaves[i]) if i in self.conversions else leaves[i] for i in self.takes]

    def _check(self, checks: ArgumentChecks, arguments: tuple[Any, ...]) -> None:
        changed = checks.failure(arguments)
        if changed is not None:
            raise ValueError(changed)
        wrong = checks.wrong_number(arguments)
        if wrong is not None:
            raise RuntimeError(f"{NOT_SO}{wrong}")

    def outputs(self, *leaves: Any) -> Any:
        """The result, put together."""
        assert self.result is not None
        return pytree.tree_unflatten(leaves, self.result)

    # -- what FX asks for --------------------------------------------------------------------------------------------

    def process_inputs(self, *args: Any) -> Any:
        bound = self.signature.bind(*args)
        bound.apply_defaults()
        return self.inputs(*bound.arguments.values())

    def process_outputs(self, outputs: Any) -> Any:
        return outputs if self.result is None else self.outputs(*outputs)

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [*super().additional_globals(), ("_inputs", self.inputs), ("_outputs", self.outputs)]

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
        parameters = [_written(parameter) for parameter in self.signature.parameters.values()]
        head = f"def {self._func_name}({', '.join(['self', *_with_marks(self.signature, parameters)])})"
        given = ", ".join(self.signature.parameters)
        taken = "".join(f"{name.partition(':')[0].partition('#')[0].strip()}, " for name in free_vars)
        return f"{head}{maybe_return_annotation}:\n    {taken or '() '}= _inputs({given})"

    def generate_output(self, output_args: Any, **options: Any) -> str:
        if self.result is None:
            return super().generate_output(output_args, **options)
        written = (options.get("repr_fn") or repr)(output_args)
        return f"return _outputs(*{written})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Call:
        return copy.copy(self)  # nothing in it changes any more


def _written(parameter: inspect.Parameter) -> str:
    """A parameter as it is written in a signature; `...` stands for a default that has no literal."""
    star = _STARS.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return f"{star}{parameter.name}"
    default = repr(parameter.default) if type(parameter.default) in _LITERAL else "..."
    return f"{parameter.name}={default}"


def _with_marks(signature: inspect.Signature, written: Sequence[str]) -> list[str]:
    """The parameters with the marks for positional-only and keyword-only ones."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    found: list[str] = []
    for i, (kind, text) in enumerate(zip(kinds, written, strict=True)):
        if kind is inspect.Parameter.KEYWORD_ONLY and not {kind, inspect.Parameter.VAR_POSITIONAL} & set(kinds[:i]):
            found.append("*")
        found.append(text)
        if kind is inspect.Parameter.POSITIONAL_ONLY and kinds[i + 1 : i + 2] != [kind]:
            found.append("/")
    return found


def _twins(leaves: Sequence[Any]) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    return [(first[id(leaves[i])], i) for i in tensors if first.setdefault(id(leaves[i]), i) != i]


def _same(known: Any, found: Any) -> bool:
    return type(known) is type(found) and (known == found or (known != known and found != found))


def _shown(leaf: Any) -> str:
    return repr(leaf) if type(leaf) in _CONSTANT else f"a {type(leaf).__name__}"
