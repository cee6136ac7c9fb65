"""The table of backends and the object that stands for one."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

import pytest
import torch

from framelift.backends import list_backends, lookup, register_backend
from framelift.backends.registry import Registered, Registry
from framelift.errors import BackendError
from framelift.graph import GraphBuilder


def graph() -> tuple[Any, list[torch.Tensor]]:
    builder = GraphBuilder()
    x = builder.add_input("x", torch.ones(2))
    y = builder.call_function(torch.neg, (x,), None, '  File "model.py", line 12, in forward\n    return -x')
    return builder.finish([y]), builder.example_inputs


def mine(module: Any, example_inputs: Any, **given: Any) -> Any:
    mine.given = given  # type: ignore[attr-defined]
    return module.forward


class TestLookup:
    def test_by_name(self) -> None:
        for name in ("eager", "aot_eager", "inductor"):
            assert lookup(name).name == name

    def test_unknown_names_are_told_with_the_nearest(self) -> None:
        with pytest.raises(ValueError, match="unknown backend 'inducktor': did you mean 'inductor'?"):
            lookup("inducktor")

    def test_what_is_no_backend(self) -> None:
        with pytest.raises(TypeError, match="a name or a callable"):
            lookup(3)  # type: ignore[arg-type]

    def test_by_callable(self) -> None:
        backend = lookup(mine)
        assert backend.name == "mine"
        assert torch.equal(backend(*graph())(torch.ones(2))[0], -torch.ones(2))
        assert mine.given == {}  # type: ignore[attr-defined]

    def test_mode_and_options_reach_the_callable(self) -> None:
        lookup(mine, "fast", {"b": [1], "a": 2})(*graph())
        assert mine.given == {"mode": "fast", "options": {"a": 2, "b": [1]}}  # type: ignore[attr-defined]

    def test_equality(self) -> None:
        assert lookup("eager") == lookup("eager") and hash(lookup("eager")) == hash(lookup("eager"))
        assert lookup(mine) == lookup(mine) != lookup("eager")
        assert lookup(mine, "fast") != lookup(mine)
        assert lookup(mine, options={"a": [1]}) == lookup(mine, options={"a": [1]})
        assert lookup(mine, options={"a": [1]}) != lookup(mine, options={"a": [2]})
        assert len({lookup(mine, options={"a": [1]}), lookup(mine, options={"a": [1]})}) == 1

    def test_a_backend_is_itself(self) -> None:
        backend = lookup(mine)
        assert lookup(backend) is backend
        assert lookup(backend, "fast").mode == "fast"


class TestOptions:
    def test_eager_takes_none(self) -> None:
        lookup("eager", "max-autotune")
        for name in ("eager", "aot_eager"):
            with pytest.raises(ValueError, match="takes no options, got 'depth'"):
                lookup(name, options={"depth": 3})

    def test_modes_of_inductor(self) -> None:
        for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
            assert lookup("inductor", mode).mode == mode
        with pytest.raises(ValueError, match="unknown mode 'max-autotun': did you mean 'max-autotune'"):
            lookup("inductor", "max-autotun")

    def test_options_of_inductor(self) -> None:
        lookup("inductor", options={"epilogue-fusion": True, "max_autotune": False, "triton.cudagraphs": False})
        with pytest.raises(ValueError, match="did you mean 'epilogue_fusion'"):
            lookup("inductor", options={"epilogue_fusio": True})
        with pytest.raises(TypeError, match="'max_autotune' is a bool, got 'yes'"):
            lookup("inductor", options={"max_autotune": "yes"})
        with pytest.raises(ValueError, match="cannot both"):
            lookup("inductor", "default", {"max_autotune": True})


class TestErrors:
    def test_a_backend_that_raises(self) -> None:
        def broken(module: Any, example_inputs: Any) -> Any:
            raise KeyError("nothing here")

        with pytest.raises(
            BackendError, match=r"'broken' raised KeyError: 'nothing here' \(graph of model.py:12\)"
        ) as e:
            lookup(broken)(*graph())
        assert isinstance(e.value.__cause__, KeyError)
        assert (e.value.backend, e.value.location) == ("broken", "model.py:12")

    def test_a_backend_that_returns_nonsense(self) -> None:
        def nothing(module: Any, example_inputs: Any) -> Any:
            return None

        with pytest.raises(BackendError, match="'nothing' returned None, which cannot be called"):
            lookup(nothing)(*graph())

    def test_errors_of_the_machine_pass(self) -> None:
        def interrupted(module: Any, example_inputs: Any) -> Any:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lookup(interrupted)(*graph())


class TestRegistering:
    def test_as_a_decorator(self) -> None:
        @register_backend
        def first_registered(module: Any, example_inputs: Any) -> Any:
            return module.forward

        @register_backend(name="second-registered", tags=("experimental",))
        def second(module: Any, example_inputs: Any) -> Any:
            return module.forward

        assert "first_registered" in list_backends()
        assert "second-registered" not in list_backends()
        assert "second-registered" in list_backends(exclude_tags=None)
        assert lookup("second-registered").function is second
        assert lookup("first_registered") == lookup(first_registered)

    def test_as_a_call(self) -> None:
        assert register_backend(mine, "mine-by-call") is mine
        assert register_backend(mine, "mine-by-call") is mine
        with pytest.raises(ValueError, match="registered already"):
            register_backend(lambda module, inputs: module.forward, "mine-by-call")

    def test_what_cannot_be_registered(self) -> None:
        with pytest.raises(TypeError, match="a backend is a callable"):
            register_backend(3)  # type: ignore[call-overload]

    def test_names_that_are_built_in(self) -> None:
        with pytest.raises(ValueError, match="registered already"):
            register_backend(mine, "eager")

    def test_listing_leaves_out_debugging(self) -> None:
        assert "inductor" in list_backends() and "eager" not in list_backends()
        assert {"eager", "aot_eager", "inductor"} <= set(list_backends(exclude_tags=()))

    def test_entry_points_are_found_when_needed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        entry = importlib.metadata.EntryPoint("installed", "framelift.backends.eager:eager", "torch_dynamo_backends")

        def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
            asked.append(group)
            return [entry]

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        monkeypatch.delitem(sys.modules, "torch._dynamo.backends.registry", raising=False)
        registry = Registry()
        assert registry.find("eager").name == "eager" and asked == []
        assert registry.find("installed").load().__name__ == "eager"
        assert registry.names(("debug",)) == ["inductor", "installed"]
        assert asked == ["torch_dynamo_backends"]

    def test_what_is_built_in_comes_first(self) -> None:
        registry = Registry()
        with pytest.raises(ValueError):
            registry.add(Registered("eager", mine))
