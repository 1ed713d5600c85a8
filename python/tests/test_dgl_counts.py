"""conftest.py: a run with too few comparisons with DGL fails, also when every test passed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
HERE = Path(__file__).parent
TESTS = """
import pytest

@pytest.mark.dgl_golden
@pytest.mark.parametrize("n", range(3))
def test_golden(n): pass

@pytest.mark.dgl_live
def test_live(): pass

@pytest.mark.dgl_live
def test_skipped(): pytest.skip("no DGL")

def test_other(): pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest((HERE / "conftest.py").read_text())
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers =\n  dgl_live: x\n  dgl_golden: x\n")
    return pytester


def run(project: pytest.Pytester, *, live: int, golden: int, enforced: bool = True):
    expected = project.path / "expected_dgl_comparisons.json"
    expected.write_text(json.dumps({"live": live, "golden": golden}))
    return project.runpytest_subprocess(*(["--expect-dgl"] if enforced else []))


def test_passed_tests_are_counted_and_skipped_ones_are_not(project):
    result = run(project, live=1, golden=3)
    result.stdout.fnmatch_lines(["DGL comparisons: 1 live, 3 golden*"])
    assert result.ret == 0


def test_too_few_golden_comparisons_fail_the_run(project):
    result = run(project, live=1, golden=5)
    result.stdout.fnmatch_lines(["FAILED: 2 golden comparisons with DGL fewer than *"])
    assert result.ret == 1


def test_too_few_are_accepted_when_not_enforced(project):
    assert run(project, live=1, golden=5, enforced=False).ret == 0


@pytest.mark.skipif(not importlib.util.find_spec("dgl"), reason="live ones count with DGL only")
def test_too_few_live_comparisons_fail_the_run_where_dgl_is(project):
    assert run(project, live=2, golden=3).ret == 1
