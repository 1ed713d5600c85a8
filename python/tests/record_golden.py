"""Records DGL's outputs for every program and small graph; run by `./dev peers --record`.

Needs DGL. Recordings of programs that are gone are removed; `count.txt` says how many comparisons
every machine must be able to make.
"""

from __future__ import annotations

import warnings

from programs import ALL, PAIRS
from programs.golden import FOLDER, path_of, record


def main() -> None:
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    for stale in set(FOLDER.glob("*.npz")) - {path_of(program) for program in ALL}:
        stale.unlink()
    total = 0
    for program in ALL:
        cases = [case for owner, case in PAIRS if owner is program and program.dgl_defines(case)]
        total += record(program, cases)
    (FOLDER / "count.txt").write_text(f"{total}\n")
    size = sum(path.stat().st_size for path in FOLDER.glob("*.npz"))
    print(f"recorded {total} comparisons of {len(ALL)} programs, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
