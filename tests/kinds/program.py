"""How programs are collected: `program = Programs()` in a module of `areas/`, and `@program(make)` above each function.

`make()` gives the arguments of one call, new ones each time. What a program imports must exist in every torch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from tests.kinds import areas


@dataclass(frozen=True)
class Program:
    area: str
    name: str
    find: Callable[[], Callable[..., Any]]
    make: Callable[[], Iterable[Any]]
    around: Callable[[], Any] | None = None  # makes the context that the call is in

    @cached_property
    def function(self) -> Callable[..., Any]:
        return self.find()

    @property
    def id(self) -> str:
        return f"{self.area}/{self.name}"


class Programs:
    """The programs of one area."""

    def __init__(self) -> None:
        self.all: list[Program] = []

    def __call__(self, make: Callable[[], Iterable[Any]] = tuple, around: Callable[[], Any] | None = None) -> Any:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            area = function.__module__.rpartition(".")[2]
            assert all(other.name != function.__name__ for other in self.all), function.__name__
            self.all.append(Program(area, function.__name__, lambda: function, make, around))
            return function

        return add

    def built(self, build: Callable[[], tuple[Callable[..., Any], Iterable[Any]]]) -> Any:
        """`@program.built` above what makes a function, with all that it encloses, and the arguments of one call."""
        area = build.__module__.rpartition(".")[2]
        assert all(other.name != build.__name__ for other in self.all), build.__name__

        def made() -> Any:
            torch.manual_seed(0)
            return build()

        self.all.append(Program(area, build.__name__, lambda: made()[0], lambda: made()[1]))
        return build


def all_programs() -> dict[str, Program]:
    """Every program by its id."""
    found = []
    for module in pkgutil.iter_modules(areas.__path__):
        found += importlib.import_module(f"{areas.__name__}.{module.name}").program.all
    return {program.id: program for program in found}
