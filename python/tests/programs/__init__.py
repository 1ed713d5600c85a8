"""The programs that eager, compiled and DGL execution must agree on."""

from programs import census, fallbacks, gat, gcn, lookups, several, small_udfs
from programs.graphs import ALL_SMALL, AnyCase
from programs.harness import Program

MODELS: tuple[Program, ...] = gcn.PROGRAMS + gat.PROGRAMS + several.PROGRAMS
"""The models of the documentation: these must also trace symbolically."""

ALL: tuple[Program, ...] = (
    MODELS + small_udfs.PROGRAMS + census.PROGRAMS + lookups.PROGRAMS + fallbacks.PROGRAMS
)

PAIRS: tuple[tuple[Program, AnyCase], ...] = tuple(
    (program, case) for program in ALL for case in ALL_SMALL if program.runs_on(case)
)
"""Every program on every small graph that it is legal on."""


def pair_id(value: object) -> str | None:
    """For `pytest.mark.parametrize(..., ids=pair_id)`."""
    return getattr(value, "name", None)
