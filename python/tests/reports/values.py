"""Facts about the numbers: isolated nodes, empty graphs, integers, order, degree one."""

from __future__ import annotations

import torch

import gossamer as gs
from programs.threads import threads
from programs.twins import copy_h, mail_sum, once, signed


def _segments(g, rows, count):
    """Sum of edge rows by destination, without any message passing."""
    return torch.zeros(count, *rows.shape[1:], dtype=rows.dtype).index_add(0, g.edges()[1], rows)


def _random(nodes, edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ends = [torch.randint(nodes, (edges,), generator=generator) for _ in "uv"]
    return gs.graph(tuple(ends), num_nodes=nodes)


def copy_and_mean(compile):
    """A1: 'copy the source, average' is the mean."""
    g, h = _random(300, 4000), signed(300, 20)
    layer = compile(once(copy_h, lambda nodes: {"o": nodes.mailbox["m"].mean(1)}))
    degree = g.in_degrees().clamp(min=1).unsqueeze(1)
    torch.testing.assert_close(layer(g, h), _segments(g, h[g.edges()[0]], 300) / degree)


def isolated_rows_take_the_initializer(compile):
    """F1: neither the old row nor the reducer's value on nothing."""

    def layer(g, h):
        with g.local_scope():
            g.ndata["h"], g.ndata["o"] = h, torch.full_like(h, 5.0)
            g.update_all(copy_h, lambda nodes: {"o": nodes.mailbox["m"].sum(1) + 10})
            return g.ndata["o"]

    layer = compile(layer)
    h = torch.ones(4, 1)
    assert layer(gs.graph(([0, 0], [2, 1]), num_nodes=4), h).flatten().tolist() == [0, 11, 11, 0]
    g = gs.graph(([0, 0], [2, 1]), num_nodes=4)
    g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 7, dtype=dtype), "o")
    assert layer(g, h).flatten().tolist() == [7, 11, 11, 7]


def nothing_at_all(compile):
    """F3: without edges, and without nodes, shape and dtype are kept."""
    layer = compile(once(lambda edges: {"m": edges.src["h"] * 2}, mail_sum))
    for nodes in (4, 1, 0, 3):
        for dtype in (torch.float32, torch.float64):
            out = layer(gs.graph(([], []), num_nodes=nodes), torch.ones(nodes, 2, dtype=dtype))
            assert out.shape == (nodes, 2)
            assert out.dtype == dtype
            assert not out.any()


def integers_are_exact(compile):
    """D3: labels past 2^40 sum exactly; comparisons give bool."""
    g = _random(30, 300)
    labels = torch.arange(300) + (1 << 41)

    def reduce(nodes):
        m = nodes.mailbox["m"]
        return {"sum": m.sum(1), "max": m.max(1)[0], "odd": (m % 2 == 1).any(1)}

    def layer(g, labels):
        with g.local_scope():
            g.edata["label"] = labels
            g.update_all(lambda edges: {"m": edges.data["label"]}, reduce)
            return g.ndata["sum"], g.ndata["max"], g.ndata["odd"]

    total, _, odd = compile(layer)(g, labels)
    assert total.dtype == torch.int64
    assert torch.equal(total, _segments(g, labels, 30))
    assert odd.dtype == torch.bool
    assert torch.equal(odd, _segments(g, labels % 2, 30) > 0)


def deviation_of_one_message(compile):
    """E5: the population deviation of one message, and of equal ones, is 0."""
    g = gs.graph(([0, 1, 2, 0, 1], [3, 4, 4, 5, 5]))
    h = torch.tensor([[1.0], [4], [4], [0], [0], [0]])
    std = compile(once(copy_h, lambda nodes: {"o": nodes.mailbox["m"].std(1, unbiased=False)}))
    assert std(g, h).flatten().tolist() == [0, 0, 0, 0, 0, 1.5]
    sample = compile(once(copy_h, lambda nodes: {"o": nodes.mailbox["m"].std(1)}))
    out = sample(g, h).flatten()
    assert torch.isnan(out[3])
    assert out[4] == 0
    torch.testing.assert_close(out[5], torch.tensor(4.5**0.5))


def mailboxes_are_in_edge_order(compile):
    """K2: a reducer that weighs slots differently is well defined."""
    g = gs.graph(([3, 2, 0, 1], [4, 5, 5, 4]))
    h = torch.tensor([1.0, 2, 4, 8, 0, 0])

    def reduce(nodes):
        m = nodes.mailbox["m"]
        return {"o": m[:, 0] - 10 * m[:, -1]}

    assert compile(once(copy_h, reduce))(g, h).tolist() == [0, 0, 0, 0, 8 - 20, 4 - 10]
    running = compile(once(copy_h, lambda nodes: {"o": nodes.mailbox["m"].cumsum(1)[:, 0]}))
    assert running(g, h)[4:].tolist() == [8, 4]


def selections(compile):
    """N2: the lower median, the largest by sorting, and the k-th value."""
    g = gs.graph(([0, 1, 2, 3, 0, 1, 4], [5, 5, 5, 5, 6, 6, 7]))
    h = torch.tensor([4.0, 1, 3, 2, 9, 0, 0, 0])

    def selected(pick):
        layer = compile(once(copy_h, lambda nodes: {"o": pick(nodes.mailbox["m"])}))
        return layer(g, h)[5:].tolist()

    assert selected(lambda m: m.median(1)[0]) == [2, 1, 9]
    assert selected(lambda m: m.sort(1, descending=True)[0][:, 0]) == [4, 4, 9]
    assert selected(lambda m: m.kthvalue(1, 1)[0]) == [1, 1, 9]
    assert selected(lambda m: (m > m.mean(1, keepdim=True)).float().sum(1)) == [2, 1, 0]


def any_width(compile):
    """L2: widths that no vector divides."""
    g = _random(200, 3000)
    layer = compile(once(lambda edges: {"m": edges.src["h"] * 0.5 + 1}, mail_sum))
    for width in (1, 2, 3, 5, 8, 17, 31, 100, 200):
        h = signed(200, width, seed=width)
        rows = h[g.edges()[0]] * 0.5 + 1
        torch.testing.assert_close(layer(g, h), _segments(g, rows, 200))


def both_id_types(compile):
    """J2: ids keep the graph's type inside a function, and give the same bits."""
    ends = [end.tolist() for end in _random(100, 900).edges()]
    h, results = signed(100, 7, dtype=torch.float32), []
    for idtype in (torch.int32, torch.int64):

        def message(edges, idtype=idtype):
            sources, destinations, ids = edges.edges()
            assert sources.dtype == destinations.dtype == ids.dtype == idtype
            return {"m": edges.src["h"] * (sources < destinations).unsqueeze(1)}

        g = gs.graph(tuple(ends), num_nodes=100, idtype=idtype)
        results.append(compile(once(message, mail_sum))(g, h))
    assert torch.equal(*results)


def same_bits_on_a_hub(compile):
    """I2: calls in a row agree in every bit, also for one thread."""
    generator = torch.Generator().manual_seed(3)
    ends = torch.randint(300, (2, 50_000), generator=generator)
    ends[1, :30_000] = 0
    g, h = gs.graph((ends[0], ends[1]), num_nodes=300), signed(300, 16, dtype=torch.float32)
    layer = compile(once(lambda edges: {"m": edges.src["h"] * edges.dst["h"]}, mail_sum))
    first = layer(g, h)
    assert all(torch.equal(layer(g, h), first) for _ in range(5))
    with threads(1):
        alone = layer(g, h)
    # The eager engine adds with torch, whose own sums may depend on the threads.
    torch.testing.assert_close(alone, first)


def softmax_by_hand(compile):
    """E4, G11: what was aggregated is read back on the edges; one node and one edge included."""

    def layer(g, w):
        with g.local_scope():
            g.edata["w"] = w
            g.update_all(
                lambda edges: {"m": edges.data["w"]},
                lambda nodes: {"top": nodes.mailbox["m"].max(1)[0]},
            )
            g.apply_edges(lambda edges: {"x": torch.exp(edges.data["w"] - edges.dst["top"])})
            g.update_all(
                lambda edges: {"m": edges.data["x"]},
                lambda nodes: {"z": nodes.mailbox["m"].sum(1)},
            )
            g.apply_edges(lambda edges: {"a": edges.data["x"] / edges.dst["z"]})
            return g.edata["a"]

    layer = compile(layer)
    for nodes, edges in ((1, 1), (1, 40), (5, 40), (5, 1)):
        sources = torch.arange(edges) % nodes
        g = gs.graph((sources, torch.zeros_like(sources)), num_nodes=nodes)
        w = signed(edges, seed=edges)
        torch.testing.assert_close(layer(g, w), w.softmax(0), rtol=1e-12, atol=1e-12)
