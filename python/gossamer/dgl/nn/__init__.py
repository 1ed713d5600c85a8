"""`dgl.nn`: the functional part. Layers are not here."""

from gossamer.dgl.nn import functional
from gossamer.softmax import edge_softmax

__all__ = ["edge_softmax", "functional"]
