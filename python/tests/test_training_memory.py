"""A training step of the usual layers allocates and saves no row of features per edge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from training_memory_models import MODELS, WIDTH

SCRIPT = Path(__file__).with_name("training_memory_models.py")
#: Tables are mapped one by one, so that none hides in memory that an earlier one left.
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "1000000"}


@pytest.fixture(scope="module")
def measured():
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **MAPPED})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_more_edges_take_no_row_of_features(name, measured):
    """A table of half the features would show: 4 bytes each, for each further edge."""
    few, many = measured[name]
    for found in (few, many):
        assert found["saved"] == []
        assert found["made"] == []
    grown = (many["grown"] - few["grown"]) / (many["edges"] - few["edges"])
    assert grown < 4 * WIDTH / 2
