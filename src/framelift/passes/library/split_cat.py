"""The split-cat family, by name: each is a policy over the piece algebra."""

from __future__ import annotations

from framelift.passes.analysis.pieces import Join, Piece, Run
from framelift.passes.declare import Work, register
from framelift.passes.library.noop import SameView
from framelift.passes.library.reassemble import Reassembled
from framelift.passes.library.splits import CoarserSplit, SplitOfSplit, SqueezedPieces, drop_single_pieces


class SplitCat(Reassembled):
    """Common to the family."""

    group = "split_cat"


@register
class SplitCatPass(SplitCat):
    """Pieces of a split in cat or stack, whatever the axes: made from the whole."""

    name = "split_cat_pass"
    roots = ("cat", "stack")

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_split and set(piece.kinds) <= {"squeeze", "unsqueeze"}

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        # Some pieces along the axis of the split are a larger piece of it.
        return super().wants(run, join, work) and (run.is_whole or run.dim != join.dim)

    def applies(self, work: Work) -> bool:
        return super().applies(work) or work.count(SqueezedPieces.roots) > 0

    def run(self, work: Work) -> None:
        super().run(work)
        work.rewrite_all(CoarserSplit())
        work.rewrite_all(SqueezedPieces())


@register
class UnbindStackPass(SplitCat):
    """All slices of an unbind, in order, in cat or stack."""

    name = "unbind_stack_pass"
    roots = ("cat", "stack")

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_unbound and not piece.chain

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        return run.is_whole


@register
class MutateCatPass(SplitCat):
    """cat of neighbouring pieces along the axis of the split: a slice of the whole."""

    name = "mutate_cat_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_split and not piece.chain and piece.dim == join.dim

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        return len(run.pieces) >= 2


@register
class MergeGetitemCatPass(CoarserSplit):
    """Neighbouring pieces that are only joined again are not cut apart."""

    group = "split_cat"


class LongRuns(SplitCat):
    """Runs of at least `threshold_to_cat` pieces, or of all."""

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        return run.is_whole or len(run.pieces) >= work.options.threshold_to_cat


@register
class SplitCatToSlicesPass(LongRuns):
    """Pieces of splits among other operands of cat, along the axis of the split."""

    name = "split_cat_to_slices_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_split and not piece.chain and piece.dim == join.dim


@register
class UnbindCatToViewPass(LongRuns):
    """Slices of an unbind among other operands of cat."""

    name = "unbind_cat_to_view_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_unbound and not piece.chain


@register
class SplitStackToCatsPass(LongRuns):
    """Pieces of splits among the operands of stack."""

    name = "split_stack_to_cats_pass"
    roots = ("stack",)

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_split and not piece.chain


@register
class UnbindStackToSlicesPass(SplitCat):
    """Neighbouring slices of an unbind among the operands of stack."""

    name = "unbind_stack_to_slices_pass"
    roots = ("stack",)

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_unbound and not piece.chain

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        return len(run.pieces) >= 2


@register
class MoveReshapeOutOfSplitStackPass(LongRuns):
    """Pieces of splits, reshaped, then stacked."""

    name = "move_reshape_out_of_split_stack_pass"
    roots = ("stack",)

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_split and bool(piece.chain)


@register
class FuseSplitGetitemSqueezeCat(SplitCat):
    """Pieces of one, squeezed, among the operands of cat or stack, whoever else uses them."""

    name = "fuse_split_getitem_squeeze_cat"
    group = ""
    roots = ("cat", "stack")

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_split and piece.kinds == ("squeeze",) and piece.length == 1

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        return len(run.pieces) >= 2


@register
class MergeSplitsPass(SplitOfSplit):
    """A piece that is split again along the same axis."""

    name = "merge_splits_pass"
    group = "split_cat"


@register
class RemoveSplitWithSizeOnePass(SameView):
    """A split in one piece."""

    name = "remove_split_with_size_one_pass"
    group = "split_cat"

    def run(self, work: Work) -> None:
        drop_single_pieces(self, work)
