"""Fixtures of the program tests; loaded by `pytest_plugins` in each file that needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from programs.threads import threads


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch's pool switched off: on graphs of a few rows a loaded machine only waits in it."""
    with threads(1):
        yield
