"""The passes in their order: which run, what surrounds each, and what happens when one fails."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from framelift.errors import short, unknown
from framelift.graph.bodies import FINAL
from framelift.passes.analysis import order
from framelift.passes.analysis.metadata import Metadata
from framelift.passes.checking.diff import html_diff, lines, text_diff
from framelift.passes.checking.verify import Mismatch
from framelift.passes.declare import REGISTRY, Custom, Pass, Respelling
from framelift.passes.driver import Driver
from framelift.passes.facts import value
from framelift.passes.options import PassOptions
from framelift.passes.report import PassRecord, PassReport
from framelift.report import stream
from framelift.report.events import PassChanged, PassRan, PassReverted
from framelift.shapes.symbols import forbids_guards

# The order in which passes run by default.
DEFAULT = (
    "normalization_pass_aten",
    "normalize_node_kwargs_pass",
    "remove_noop_pass",
    "relu_nan_to_num",
    "fuse_chunk_reshape_concat_pass",
    "group_batch_fusion_passes",
    "normalize_node_kwargs_pass",
    "fuse_chunk_squeeze_cat_pass",
    "merge_concats_pass",
    "fuse_split_linear_add_pass",
    "remove_reshape_pass",
    "fuse_parallel_linear_pass",
    "remove_split_ops_pass",
    "stack_to_unsqueeze_pass",
    "fuse_chunk_reshape_unsqueeze_concat_pass",
)
# What closes every run.
TAIL = ("restore_stack", "copy_pieces", "remove_noop_pass")
# `remove_passes="remove_noop"` takes only the last run of remove_noop_pass away.
LAST_NOOP = "remove_noop"
# The passes run again while they make another graph of it, at most so often.
MAX_ROUNDS = 4


def pre_grad_passes(
    gm: GraphModule,
    example_inputs: Sequence[Any] = (),
    add_passes: str | Iterable[str] | None = None,
    remove_passes: str | Iterable[str] | None = None,
    *,
    options: PassOptions | None = None,
) -> GraphModule:
    """Runs the passes on a graph module, in place, and returns it.

    `add_passes` and `remove_passes` name passes, separated by commas; `@group` names a group. What was done is in
    `gm.meta["pass_report"]`, in the event stream and in the log "passes".

    >>> gm, _ = framelift.export(lambda x: x.reshape(4, 6).relu(), torch.randn(4, 6))
    >>> print(pre_grad_passes(gm).code)
    """
    options = checked(options)
    run_planned(gm, example_inputs, planned(add_passes, remove_passes, options), options)
    return gm


def run_planned(gm: GraphModule, example_inputs: Sequence[Any], chosen: list[Pass], options: PassOptions) -> PassReport:
    """Runs passes on a graph and the graphs inside it, again while they find something to do."""
    report = PassReport()
    _run_inside(gm, chosen, options, report)
    _run(gm, example_inputs, chosen, options, report)
    gm.meta["pass_report"] = report
    return report


def may_apply(gm: GraphModule, chosen: list[Pass], options: PassOptions) -> bool:
    """Whether any of the passes might find something, going by the kinds of operations alone."""
    work = Driver(gm, Metadata(gm), options)
    return any(each.applies(work) for each in chosen) or next(iter(gm.children()), None) is not None


def run_passes(
    gm: GraphModule, names: Iterable[str], example_inputs: Sequence[Any] = (), *, options: PassOptions | None = None
) -> PassReport:
    """Runs just these passes, in this order, once."""
    options = checked(options)
    known = names_in("names", list(names))
    report = PassReport()
    _run(gm, example_inputs, [REGISTRY[name] for name in known], options, report, repeats=False)
    gm.meta["pass_report"] = report
    return report


# -- which ---------------------------------------------------------------------------------------------------------


def planned(
    add_passes: str | Iterable[str] | None, remove_passes: str | Iterable[str] | None, options: PassOptions
) -> list[Pass]:
    """The passes to run, in order."""
    removed = names_in("remove_passes", remove_passes, extra=(LAST_NOOP,))
    added = names_in("add_passes", add_passes)
    body = [name for name in DEFAULT if _runs_by_default(REGISTRY[name], added, options)]
    body += [name for name in REGISTRY if name in added and (name not in DEFAULT or name in body)]
    tail = [name for name in TAIL if not (name == "remove_noop_pass" and LAST_NOOP in removed)]
    named = [[REGISTRY[name] for name in names if name not in removed] for names in (body, tail)]
    return [*named[0], *map(Custom, options.custom), *named[1]]


def names_in(what: str, given: str | Iterable[str] | None, extra: Iterable[str] = ()) -> list[str]:
    """Known names of passes, from a text with commas or a list; groups are taken apart."""
    if given is None:
        return []
    words = given.split(",") if isinstance(given, str) else list(given)
    groups = {f"@{each.group}" for each in REGISTRY.values() if each.group}
    found: list[str] = []
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{what} has {short(word)}: names of passes are str")
        word = word.strip()
        if word in REGISTRY or word in extra:
            found.append(word)
        elif word == "@all":
            found += REGISTRY
        elif word in groups:
            found += [name for name, each in REGISTRY.items() if f"@{each.group}" == word]
        elif word:
            raise ValueError(unknown("pass", word, [*REGISTRY, *sorted(groups), "@all"], shown=80))
    return list(dict.fromkeys(found))


def checked(options: PassOptions | None) -> PassOptions:
    """The options, if the passes they name exist."""
    options = options if options is not None else PassOptions()
    for what in ("batch", "allow_semantic_changes", "overrides"):
        names_in(what, getattr(options, what))
    return options


def _runs_by_default(each: Pass, added: list[str], options: PassOptions) -> bool:
    """Exact passes always run; others only where their deviation is wanted."""
    if each.exactness == "semantic":
        return each.name in options.allow_semantic_changes or each.name in added
    if each.exactness == "approx":
        return options.approximate or each.name in added
    return True


# -- running -------------------------------------------------------------------------------------------------------


def _run(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    chosen: list[Pass],
    options: PassOptions,
    report: PassReport,
    repeats: bool = True,
) -> None:
    work = Driver(gm, Metadata(gm, example_inputs), options)
    # Symbolic sizes stay as unknown as they are: a rewrite that would have to assume something is not made.
    without_guards = forbids_guards(work.metadata.mode.shape_env)
    if without_guards is not None:
        with without_guards:
            _run_all(work, chosen, report, MAX_ROUNDS if repeats else 1)


def _run_all(work: Driver, chosen: list[Pass], report: PassReport, rounds: int) -> None:
    gm, options = work.module, work.options
    dead = order.remove_dead(gm.graph, work.memory)
    deadline = None if options.budget_ms is None else time.perf_counter() + options.budget_ms / 1e3
    done: dict[str, int] = {}  # pass -> the version of the graph in which it found nothing left to do
    for number in range(rounds):
        before = [node.target for node in gm.graph.nodes]
        is_changed = False
        for index, each in enumerate(chosen, 1):
            if work.left == 0 or (deadline is not None and time.perf_counter() > deadline):
                break
            if number and not each.repeats:
                continue
            record = run_one(each, index, work, is_done=done.get(each.name) == work.version)
            if not record.rewrites:
                done[each.name] = work.version
            is_changed |= record.rewrites > 0 and not isinstance(each, Respelling)
            if number == 0 or record.rewrites or record.reverted:
                report.records.append(record)
                _tell(record)
        # A late pass may have made work for an early one; what one does and another undoes is no change.
        if not is_changed or [node.target for node in gm.graph.nodes] == before:
            break
    if dead or any(record.rewrites for record in report.records):
        work.refresh()
        gm.recompile()


def run_one(each: Pass, index: int, work: Driver, is_done: bool = False) -> PassRecord:
    """One pass, with what surrounds it: its failure leaves the graph as it was."""
    record = PassRecord(index, each.name, nodes_before=len(work.graph.nodes))
    start = time.perf_counter()
    work.begin(record)
    try:
        if not is_done and each.applies(work):
            each.run(work)
        if record.rewrites:
            work.finish(each.exactness)
            _show_change(record, work)
    except Exception as error:  # whatever a pass raises, the graph it was given is still good
        work.revert()
        _keep_inputs(record, error, work.options)
        if work.options.on_error == "raise":
            raise
        record.error = f"{type(error).__name__}: {error}"
        record.rewrites = 0
    record.seconds = time.perf_counter() - start
    record.nodes_after = len(work.graph.nodes)
    return record


def _keep_inputs(record: PassRecord, error: Exception, options: PassOptions) -> None:
    """The inputs on which a pass changed a result, beside the pages."""
    if isinstance(error, Mismatch) and options.diff_dir is not None:
        torch.save(list(error.inputs), _next_file(options.diff_dir, f"{record.name}.inputs.pt"))


def _next_file(folder: str | Path, name: str) -> Path:
    """A numbered file in a folder, which is made if need be."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{len(list(Path(folder).iterdir())):03d}_{name}"


def _show_change(record: PassRecord, work: Driver) -> None:
    """The difference a pass made, for whoever wants to see it."""
    folder = work.options.diff_dir
    if work.snapshot is None or (folder is None and not stream.wanted(PassChanged)):
        return
    before, after = lines(work.snapshot.graph()), lines(work.graph)
    stream.emit(PassChanged(record.name, text_diff(before, after, record.name)))
    if folder is not None:
        _next_file(folder, f"{record.name}.html").write_text(html_diff(before, after, record.name))


def _tell(record: PassRecord) -> None:
    if record.reverted:
        stream.emit(PassReverted(record.name, record.error))
    if stream.wanted(PassRan):
        counts = (record.rewrites, record.nodes_before, record.nodes_after, record.seconds)
        stream.emit(PassRan(record.name, *counts, dict(record.rejected), record.matches))


def _run_inside(gm: GraphModule, chosen: list[Pass], options: PassOptions, report: PassReport) -> None:
    """Subgraphs of higher-order operators first, each once. Those without metadata are left alone."""
    done: set[int] = set()
    for node in gm.graph.find_nodes(op="get_attr"):
        child = getattr(gm, str(node.target), None)
        if isinstance(child, GraphModule) and id(child) not in done and not child.meta.get(FINAL):
            done.add(id(child))
            examples = [value(each) for each in child.graph.find_nodes(op="placeholder")]
            if all(example is not None for example in examples):
                _run_inside(child, chosen, options, report)
                _run(child, examples, chosen, options, report)
