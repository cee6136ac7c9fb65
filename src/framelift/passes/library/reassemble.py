"""Tensors taken apart and put together again: the named passes choose which joins to look at, the algebra does it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import ClassVar

from torch.fx import Node

from framelift.passes.analysis.pieces import Join, Piece, Run, join_of, rejoined
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch


class Reassembled(Rewrite):
    """Makes the runs of a join from their sources.

    `takes` says which pieces are this pass's; a run is made if all its pieces are, and if there are enough of them.
    """

    roots: ClassVar[tuple[str, ...]] = ("cat",)
    shortest: ClassVar[int] = 2  # pieces in a run

    def takes(self, piece: Piece, join: Join) -> bool:
        raise NotImplementedError

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        """Whether a run should be made, given that it can be."""
        return len(run.pieces) >= self.shortest and (run.is_whole or len(run.pieces) > 2)

    def match(self, root: Node, work: Work) -> Match | None:
        join: Join = work.read(join_of, root)
        runs: list[Run] = []
        made: list[bool] = []
        for whole in join.runs():
            # A run is cut where pieces that are this pass's end.
            for taken, pieces in groupby(whole.pieces, key=lambda piece: self._is_own(piece, join, work)):
                run = Run(tuple(pieces), whole.joined)
                runs.append(run)
                made.append(taken and run.can_be_made and self.wants(run, join, work))
        if not any(made):
            raise NoMatch("no run")
        used = [run for make, run in zip(made, runs, strict=True) if make]
        nodes = [node for run in used for piece in run.pieces for node in piece.nodes]
        return Match(root, *nodes, join=join, runs=runs, made=made, used=used)

    def _is_own(self, piece: Piece, join: Join, work: Work) -> bool:
        return len(piece.chain) <= work.options.max_search_depth and self.takes(piece, join)

    def profit(self, match: Match, work: Work) -> bool:
        """A pure run saves the copy; an even one may copy twice, which many pieces pay for."""
        return all(run.is_pure or len(run.pieces) >= 4 for run in match.used)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        return {match.root: rejoined(match.join, match.made, match.runs, build)}


@register
class FuseChunkReshapeConcatPass(Reassembled):
    """split, reshape each piece, cat."""

    name = "fuse_chunk_reshape_concat_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_part and bool(piece.chain) and set(piece.kinds) <= {"reshape", "view"}


@register
class FuseChunkSqueezeCatPass(Reassembled):
    """split in pieces of one, squeeze that axis, cat."""

    name = "fuse_chunk_squeeze_cat_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_part and piece.kinds == ("squeeze",) and piece.length == 1


@register
class FuseChunkReshapeUnsqueezeConcatPass(Reassembled):
    """split, reshape, unsqueeze, cat; after stack_to_unsqueeze_pass, stacks too."""

    name = "fuse_chunk_reshape_unsqueeze_concat_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_part and "unsqueeze" in piece.kinds
