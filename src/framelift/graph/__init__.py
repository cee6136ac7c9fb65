"""Building FX graphs: tensor metadata, its memo, and the graph itself."""

from framelift.graph.builder import GraphBuilder, Mark
from framelift.graph.errors import MemoMismatch, MetadataFailure, NeedsNumbers
from framelift.graph.metadata import Descriptor
from framelift.graph.propagation.memo import MetadataMemo
from framelift.graph.record import Location, NumberRef, TensorRef, TokenRef

__all__ = [
    "Descriptor",
    "GraphBuilder",
    "Location",
    "Mark",
    "MemoMismatch",
    "MetadataMemo",
    "MetadataFailure",
    "NeedsNumbers",
    "NumberRef",
    "TensorRef",
    "TokenRef",
]
