"""Threads, processes, and graphs that change or go away while a compiled module lives."""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing
import weakref

import pytest
import torch

import gossamer as gs
from programs import graphs
from programs.library import dgl_is_installed, dgl_library, gossamer_library
from programs.twins import BY_NAME, H, Model, call, mail_sum, make_graph, once, signed
from programs.watch import resident_bytes

LAYER = once(lambda edges: {"m": edges.src["h"] * torch.tanh(edges.dst["h"])}, mail_sum)
BIG = graphs.POWER_LAW


def test_two_python_threads_in_one_compiled_layer():
    """Different inputs and graphs at once; also while the first call still compiles."""
    fast = gs.compile(LAYER, fallback="error")
    jobs = [
        (case, signed(case.num_src, 8, seed=seed))
        for case in (BIG, BY_NAME["power_law"])
        for seed in range(10)
    ]
    expected = [LAYER(make_graph(case), h) for case, h in jobs]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: fast(make_graph(job[0]), job[1]), jobs * 3))
    for index, result in enumerate(results):
        torch.testing.assert_close(result, expected[index % len(jobs)], rtol=1e-12, atol=1e-12)
    assert len(gs.explain(fast).compilations) == 1


def test_two_threads_share_one_graph():
    fast, g = gs.compile(LAYER, fallback="error"), make_graph(BIG)
    inputs = [signed(BIG.num_src, 8, seed=seed) for seed in range(8)]
    expected = [LAYER(make_graph(BIG), h) for h in inputs]

    def in_own_view(h):
        return fast(g.local_var(), h)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for result, want in zip(pool.map(in_own_view, inputs), expected, strict=True):
            torch.testing.assert_close(result, want, rtol=1e-12, atol=1e-12)


def _in_child(fast, h, queue) -> None:
    torch.set_num_threads(1)
    queue.put(fast(make_graph(), h).tolist())


def _forked(fast, h) -> list:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(fast, h, queue))
    child.start()
    try:
        return queue.get(timeout=60)
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("warm", [True, False], ids=["compiled_before", "compiled_in_worker"])
def test_a_forked_worker(warm):
    fast = gs.compile(LAYER, fallback="error")
    if warm:
        fast(make_graph(BIG), signed(BIG.num_src, 3))
    expected = LAYER(make_graph(), H)
    torch.testing.assert_close(torch.tensor(_forked(fast, H), dtype=torch.float64), expected)
    torch.testing.assert_close(fast(make_graph(), H), expected)


def test_a_loader_with_workers():
    fast = gs.compile(LAYER, fallback="error")
    fast(make_graph(), H)
    loader = torch.utils.data.DataLoader(_Dataset(fast), batch_size=None, num_workers=2)
    results = sorted(loader, key=lambda pair: pair[0])
    assert [index for index, _ in results] == list(range(6))
    for index, result in results:
        torch.testing.assert_close(result, LAYER(make_graph(), H * index))


class _Dataset(torch.utils.data.Dataset):
    def __init__(self, fast) -> None:
        self.fast = fast

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index):
        return index, self.fast(make_graph(), H * index)


def _change_in_place(library) -> None:
    fast, g, twin = gs.compile(LAYER, fallback="error"), None, None
    (g,), (twin,) = (BY_NAME["power_law"].build(library) for _ in range(2))
    h = H
    for step in range(4):
        torch.testing.assert_close(fast(g, h), LAYER(twin, h), rtol=1e-12, atol=1e-12)
        for graph in (g, twin):
            if step == 2:
                graph.remove_edges(torch.tensor([0, 3, 5]))
            else:
                graph.add_edges(torch.tensor([step, 1, 1]), torch.tensor([2, step + 5, 2]))
    for graph in (g, twin):
        graph.add_nodes(2)
    h = torch.cat([h, h[:2]])
    torch.testing.assert_close(fast(g, h), LAYER(twin, h), rtol=1e-12, atol=1e-12)


def test_a_graph_changed_in_place_between_calls():
    _change_in_place(gossamer_library())


@pytest.mark.dgl_live
@pytest.mark.skipif(not dgl_is_installed(), reason="DGL is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_dgl_graph_changed_in_place_between_calls():
    _change_in_place(dgl_library())


def _random_graph(library, nodes: int, edges: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    ends = [torch.randint(nodes, (edges,), generator=generator) for _ in "uv"]
    return library.graph(tuple(ends), num_nodes=nodes)


def _many_graphs(library) -> None:
    """Graphs of one size that come and go: right each time, and memory stays flat."""
    fast = gs.compile(LAYER, fallback="error")
    nodes, edges = 2000, 100_000
    h = signed(nodes, 4)
    early = 0
    for seed in range(200):
        g = _random_graph(library, nodes, edges, seed)
        out = fast(g, h)
        if seed % 20 == 0:
            torch.testing.assert_close(out, LAYER(g, h), rtol=1e-12, atol=1e-12)
        if seed == 60:
            early = resident_bytes()
    # One graph's endpoints are 1.6 MB; 140 of them kept, with rows and columns, are over 400 MB.
    assert resident_bytes() - early < 64 << 20


def test_two_hundred_graphs_leave_memory_flat():
    _many_graphs(gossamer_library())


@pytest.mark.dgl_live
@pytest.mark.skipif(not dgl_is_installed(), reason="DGL is not installed")
@pytest.mark.filterwarnings("ignore")
def test_two_hundred_dgl_graphs_leave_memory_flat():
    _many_graphs(dgl_library())


def test_a_freed_graph_is_not_kept_alive():
    fast = gs.compile(LAYER, fallback="error")
    g = make_graph()
    fast(g, H)
    h = H.clone()
    fast(g, h)
    graph, rows = weakref.ref(g), weakref.ref(h)
    del g, h
    gc.collect()
    assert graph() is None
    assert rows() is None
    torch.testing.assert_close(fast(make_graph(), H), LAYER(make_graph(), H))


def test_a_freed_module_is_not_kept_alive():
    model = Model()
    fast = gs.compile(model, fallback="error")
    call(fast, make_graph(), H)
    gone = weakref.ref(model)
    del model, fast
    gc.collect()
    assert gone() is None
