"""scikit-learn's handwritten digits with a nearest-neighbour graph: the demo without apt."""

from __future__ import annotations

import torch

from packages import Dataset, undirected

# The classifier sees half of the picture only, so that there is something for the graph to add.
VISIBLE_COLUMNS = 16


def load(neighbors: int = 6) -> Dataset:
    """1,797 pictures of 8 x 8 pixels; edges to the `neighbors` most similar other pictures."""
    # Slow to import, and needed only here.
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    pixels, labels = load_digits(return_X_y=True)
    near = kneighbors_graph(pixels, neighbors).tocoo()
    pairs = list(zip(near.row.tolist(), near.col.tolist(), strict=True))
    src, dst = undirected(pairs, len(labels))
    return Dataset(
        title="handwritten digits",
        src=src,
        dst=dst,
        features=torch.tensor(pixels[:, :VISIBLE_COLUMNS] / 16, dtype=torch.float32),
        labels=torch.tensor(labels, dtype=torch.int64),
        classes=[str(digit) for digit in range(10)],
    )
