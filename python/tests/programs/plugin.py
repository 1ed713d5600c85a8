"""Fixtures of the program tests; loaded by `pytest_plugins` in each file that needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch's pool switched off: on graphs of a few rows a loaded machine only waits in it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
