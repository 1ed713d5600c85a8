"""`dgl.nn.functional`."""

from gossamer.softmax import edge_softmax

__all__ = ["edge_softmax"]
