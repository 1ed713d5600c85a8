"""What cannot be compiled runs eagerly, alone, and is reported with file, line and reason."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gossamer as gs
from programs import fallbacks
from programs.harness import reference, run
from programs.library import gossamer_library
from programs.measure import assert_outputs
from programs.twins import BY_NAME, H, assert_twins, call, copy_h, mail_sum, make_graph, once


@pytest.mark.parametrize("site", fallbacks.SITES, ids=lambda site: site.program.name)
def test_a_fallback_names_the_line_and_a_reason(site):
    program, case, library = site.program, BY_NAME["power_law"], gossamer_library()
    fast = gs.compile(program.build(library, 3, torch.float64))
    with pytest.warns(gs.FallbackWarning):
        first = run(program, case, library, model=fast)
    assert_outputs(first, reference(program, case, 3, torch.float64))
    (entry,) = gs.explain(fast).fallbacks
    assert (entry.file, entry.line) == (site.file, site.line)
    assert len(entry.reason) > 10
    assert gs.explain(fast).code_paths[f"{site.file}:{site.line}"] == "eager"


@pytest.mark.parametrize("site", fallbacks.SITES, ids=lambda site: site.program.name)
def test_fallback_error_raises_at_the_line(site):
    library = gossamer_library()
    fast = gs.compile(site.program.build(library, 3, torch.float64), fallback="error")
    with pytest.raises(gs.errors.UnsupportedError) as raised:
        run(site.program, BY_NAME["power_law"], library, model=fast)
    assert (raised.value.file, raised.value.line) == (site.file, site.line)
    assert f"{site.file}:{site.line}" in str(raised.value)


def test_a_fallback_warns_once_per_place():
    fast = gs.compile(once(copy_h, fallbacks.branch_on_value))
    with pytest.warns(gs.FallbackWarning):
        fast(make_graph(), H)
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.FallbackWarning)
        fast(make_graph(), H + 1)


def test_one_fallback_leaves_the_rest_compiled():
    def layer(g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.update_all(copy_h, lambda nodes: {"h": nodes.mailbox["m"].mean(1)})
            g.update_all(copy_h, fallbacks.branch_on_value)
            g.ndata["h"] = g.ndata["o"]
            g.update_all(copy_h, mail_sum)
            return F.relu(g.ndata["o"])

    report = assert_twins(layer, H)
    assert len(report.fallbacks) == 1
    assert "kernel" in report.code_paths.values()


def test_print_happens_on_every_call(capsys):
    layer = once(copy_h, fallbacks.prints)
    call(layer, make_graph(), H)
    eager = capsys.readouterr().out
    fast = gs.compile(layer)
    for _ in range(3):
        call(fast, make_graph(), H)
        assert capsys.readouterr().out == eager


def _of_degree(number):
    def scaled(nodes):
        m = nodes.mailbox["m"]
        return {"o": m.sum(1) * number(m.shape[1])}

    return once(copy_h, scaled)


def test_the_degree_as_a_python_number():
    """Arithmetic, math and numpy take it as it is; float() of it is the user's to leave out."""
    for number in (lambda d: d**-0.5, lambda d: math.sqrt(d), lambda d: np.log(d + 1)):
        assert not assert_twins(_of_degree(number), H).fallbacks
    (fallback,) = assert_twins(_of_degree(lambda d: float(d)), H).fallbacks
    assert fallback.reason.startswith("a Python number is made of")
    assert "without float() or int()" in fallback.remedy


@pytest.mark.parametrize("width", [(0,), (2, 0)])
def test_rows_without_numbers_run_eagerly_with_a_clear_reason(width):
    x = torch.empty(make_graph().num_nodes(), *width, dtype=torch.float64, requires_grad=True)
    fast = gs.compile(once(lambda edges: {"m": edges.src["h"] * 2}, mail_sum))
    with pytest.warns(gs.FallbackWarning, match=r"rows of shape \(.*\) hold no numbers") as seen:
        y = fast(make_graph(), x)
    assert y.shape == x.shape
    assert not any("tensor<" in str(warning.message) for warning in seen)
    y.sum().backward()
    assert x.grad.shape == x.shape
    (entry,) = gs.explain(fast).fallbacks
    assert entry.file == __file__


PICKED = "positions are not compiled"
REASONS = {
    # what the user writes: what the reason names, what the remedy says
    "roll": (lambda m: torch.roll(m, 1, -1).sum(1), "torch.roll decides by", "write it with"),
    "pinv": (lambda m: torch.linalg.pinv(m).sum(2), "torch.linalg.pinv decides by", "call it out"),
    "size": (lambda m: m.sum(1) if m.shape[1] > 2 else m[:, 0], "a decision on", "torch.where"),
    "argmax": (lambda m: m.argmax(1) + m.sum(1), "aten.argmax.default", PICKED),
    "place": (lambda m: m.max(1)[1] + m.sum(1), "result 1 of aten.max.dim", PICKED),
    "sort": (lambda m: m.sort(1)[0].mean(1), "aten.sort.default", "not ordered"),
    "columns": (lambda m: m[..., [1, 0]].sum(1), "an axis other than the first", "slices"),
    "pairs": (lambda m: (m @ m.mT).sum((1, 2)), "(rows, degree, degree) pairs the", "their sum"),
}


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_names_the_function_and_a_remedy(name):
    function, reason, remedy = REASONS[name]
    layer = once(copy_h, lambda nodes: {"o": function(nodes.mailbox["m"])})
    with pytest.raises(gs.errors.UnsupportedError) as raised:
        call(gs.compile(layer, fallback="error"), make_graph(), H)
    assert reason in raised.value.reason
    assert remedy in str(raised.value)
    assert raised.value.line == function.__code__.co_firstlineno
    assert_twins(layer, H)
