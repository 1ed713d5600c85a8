"""Counts the comparisons with DGL that really ran, so that CI can't pass by skipping them.

Tests marked `dgl_live` compare with a DGL that is installed, tests marked `dgl_golden` with DGL's
recorded outputs. One passed test is one comparison. With `--expect-dgl` the run fails when there
are fewer than `expected_dgl_comparisons.json` says; live ones count only where DGL is installed.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

KINDS = ("live", "golden")
EXPECTED = Path(__file__).with_name("expected_dgl_comparisons.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expect-dgl",
        action="store_true",
        help=f"fail when fewer comparisons with DGL ran than {EXPECTED.name} says",
    )


@pytest.fixture(autouse=True)
def traced_anew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test traced is no other test's, unless it is marked `stored`."""
    if request.node.get_closest_marker("stored") is None:
        monkeypatch.setattr("gossamer.capture.stable_key.identity", lambda: None)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(DglComparisons(config.getoption("--expect-dgl")))


def missing_comparisons(
    ran: dict[str, int], expected: dict[str, int], has_dgl: bool
) -> dict[str, int]:
    """How many comparisons of each kind are missing; kinds with enough are left out."""
    required = {kind: expected[kind] for kind in KINDS if has_dgl or kind != "live"}
    return {k: least - ran[k] for k, least in required.items() if ran[k] < least}


class DglComparisons:
    """Counts passed tests by marker, prints the counts, and fails a run with too few."""

    def __init__(self, enforced: bool):
        self.enforced = enforced
        self.ran = dict.fromkeys(KINDS, 0)
        self.missing: dict[str, int] = {}
        self.has_dgl = importlib.util.find_spec("dgl") is not None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item):
        outcome = yield
        report = outcome.get_result()
        if report.when == "call" and report.passed:
            for kind in KINDS:
                self.ran[kind] += item.get_closest_marker(f"dgl_{kind}") is not None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.enforced:
            return
        self.missing = missing_comparisons(self.ran, json.loads(EXPECTED.read_text()), self.has_dgl)
        if self.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter) -> None:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.ran.items())
        absent = "" if self.has_dgl else " (dgl is not installed: none can be live)"
        terminalreporter.write_line(f"DGL comparisons: {counts}{absent}")
        for kind, count in self.missing.items():
            terminalreporter.write_line(
                f"FAILED: {count} {kind} comparisons with DGL fewer than {EXPECTED.name} expects"
            )
