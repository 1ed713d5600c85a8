"""Random graphs."""

from __future__ import annotations

import torch

from gossamer.convert import graph, heterograph
from gossamer.graph import Graph


def rand_graph(
    num_nodes: int,
    num_edges: int,
    idtype: torch.dtype = torch.int64,
    device: torch.device | str = "cpu",
) -> Graph:
    """A graph whose edges have independent uniform ends, from torch's generator (unlike DGL:
    repeats occur).
    """
    ends = torch.randint(max(num_nodes, 1), (2, num_edges), dtype=idtype, device=device)
    return graph((ends[0], ends[1]), num_nodes)


def rand_bipartite(
    utype: str,
    etype: str,
    vtype: str,
    num_src_nodes: int,
    num_dst_nodes: int,
    num_edges: int,
    idtype: torch.dtype = torch.int64,
    device: torch.device | str = "cpu",
) -> Graph:
    """A bipartite graph whose edges have independent uniform ends, from torch's generator."""
    src = torch.randint(max(num_src_nodes, 1), (num_edges,), dtype=idtype, device=device)
    dst = torch.randint(max(num_dst_nodes, 1), (num_edges,), dtype=idtype, device=device)
    sizes = {utype: num_src_nodes, vtype: num_dst_nodes}
    return heterograph({(utype, etype, vtype): (src, dst)}, sizes)
