"""Residual code: calls the graph, replays, rebuilds; asks for the original where the graph raises."""

from __future__ import annotations

import dis
from typing import Any

import pytest
import torch

import framelift
from framelift.bytecode.decode import argument_names
from framelift.effects.modes import state_now
from framelift.native import _core
from framelift.residual.codegen import whole_frame
from framelift.residual.rollback import Precautions
from framelift.values.containers.sequences import ListValue
from tests.helpers.record import Record

X = torch.linspace(-1, 1, 4)


def residual_of(function: Any, *args: Any, **kwargs: Any) -> Any:
    record = Record()
    with record.listening():
        framelift.compile(function, backend="eager")(*args, **kwargs)
    return record.residuals[0]


def names_called(code: Any) -> list[str]:
    constants = [c for c in code.co_consts if callable(c)]
    return [getattr(c, "__name__", type(c).__name__) for c in constants]


def test_arguments_come_first_and_are_flat() -> None:
    def f(a: Any, /, b: Any, *rest: Any, c: Any, **more: Any) -> Any:
        return a + b

    code = residual_of(f, X, 1, 2, c=3, d=4)
    assert argument_names(f.__code__) == ("a", "b", "c", "rest", "more")
    assert code.co_varnames[:5] == ("a", "b", "c", "rest", "more")
    assert code.co_flags & 0x0C == 0 and code.co_kwonlyargcount == 0 and not code.co_freevars


def test_the_users_file_and_line_are_in_it() -> None:
    def f(x: Any) -> Any:
        return x + 1

    code = residual_of(f, X)
    assert (code.co_name, code.co_filename, code.co_firstlineno) == ("f", __file__, f.__code__.co_firstlineno)


def test_a_plain_graph_takes_no_precautions() -> None:
    code = residual_of(lambda x: x.sin() + 1, X)
    assert not {"save", "undo"} & set(names_called(code))
    assert any(constant is _core.RERUN for constant in code.co_consts)


def test_random_numbers_modes_and_writes_take_precautions() -> None:
    def draws(x: Any) -> Any:
        return x * torch.rand(4)

    def switches(x: Any) -> Any:
        with torch.no_grad():
            return x * 2

    def writes(x: Any) -> Any:
        x.add_(1)
        return x * 2

    for function in (draws, switches, writes):
        assert {"save", "undo"} <= set(names_called(residual_of(function, X.clone())))


def test_code_without_a_graph_has_no_handler() -> None:
    code = residual_of(lambda x: x, X)
    assert not any(constant is _core.RERUN for constant in code.co_consts)
    assert [i.opname for i in dis.get_instructions(code)][-2:] == ["LOAD_FAST", "RETURN_VALUE"]


def test_one_object_returned_twice_is_built_once() -> None:
    def f(x: Any) -> Any:
        values = [x + 1]
        return values, values, {"a": values}

    one, two, table = framelift.compile(f, backend="eager")(X)
    assert one is two is table["a"]


def test_residual_code_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the graph gives results and inputs are fetched: what is needed is known when the rest is written."""
    rebuilt: list[Any] = []
    rebuild = ListValue.rebuild
    monkeypatch.setattr(ListValue, "rebuild", lambda self, emit: (rebuilt.append(self), rebuild(self, emit))[1])

    def f(x: Any) -> Any:
        return [x + 1, scale * 2]

    scale = torch.ones(4)
    assert [value.tolist() for value in framelift.compile(f, backend="eager")(X)] == [(X + 1).tolist(), [2.0] * 4]
    assert len(rebuilt) == 1


def test_results_of_the_graph_that_nobody_needs_are_not_unpacked() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        z = y * 2
        return z

    unpacked = [i.arg for i in dis.get_instructions(residual_of(f, X)) if i.opname == "UNPACK_SEQUENCE"]
    assert unpacked == [1]


def test_the_whole_frame_as_a_flat_function() -> None:
    def f(a: Any, *rest: Any, b: Any, **more: Any) -> Any:
        return a, rest, b, more

    flat = whole_frame(f.__code__)
    assert flat.code.co_argcount == 4
    assert [argument.number for argument in flat.argument_order] == [0, 1, 2, 3]


# -- precautions -----------------------------------------------------------------------------------------------------


def test_random_states_come_back() -> None:
    precautions = Precautions(draws_random=True)
    saved = precautions.save()
    first = torch.rand(3)
    assert precautions.undo(saved)
    assert torch.equal(torch.rand(3), first)


def test_modes_come_back() -> None:
    precautions = Precautions(modes=state_now())
    saved = precautions.save()
    cast = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, True)
    torch.set_grad_enabled(False)
    assert torch.is_autocast_enabled("cpu")
    assert precautions.undo(saved)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    del cast
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_modes_come_back_to_what_they_were_inside_a_block() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        precautions = Precautions(modes=state_now())
        saved = precautions.save()
        torch.amp.autocast_mode._enter_autocast("cpu", torch.float16, True, True)
        torch.set_grad_enabled(True)
        assert precautions.undo(saved)
        assert torch.get_autocast_dtype("cpu") is torch.bfloat16
        assert not torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_writes_are_noticed() -> None:
    precautions = Precautions(writes=True)
    one, two = torch.ones(2), torch.ones(2)
    precautions.save(one, two)  # the first run: all memory would be put back
    saved = precautions.save(one, two)
    two.add_(1)
    assert not precautions.undo(saved, one, two)
    saved = precautions.save(one, two)
    assert precautions.undo(saved, one, two)


def test_a_tensor_that_does_not_count_its_changes_may_have_been_written() -> None:
    precautions = Precautions(writes=True)
    with torch.inference_mode():
        tensor = torch.ones(2)
    precautions.save(tensor)
    assert not precautions.undo(precautions.save(tensor), tensor)


def test_a_raising_graph_under_autocast() -> None:
    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            return torch.linalg.cholesky(x * 1), y

    lifted = framelift.compile(f, backend="eager")
    lifted(torch.eye(2))
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError):
            lifted(-torch.eye(2))
        assert not torch.is_autocast_enabled("cpu")
    assert lifted(torch.eye(2))[1].dtype is torch.bfloat16
