"""examples/cpp_inference, end to end: written here, run by a C++ program without Python."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gossamer import native

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp_inference"

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


def export_model():
    spec = importlib.util.spec_from_file_location("export_model", EXAMPLE / "export_model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cpp_inference")
    library = native.library_path("gossamer_torch").resolve()
    run(
        *("cmake", "-S", EXAMPLE, "-B", folder / "build"),
        f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}",
        f"-DGOSSAMER_TORCH_LIBRARY={library}",
    )
    run("cmake", "--build", folder / "build")
    return folder


def test_cpp_gives_the_models_results_on_another_graph(built):
    example = export_model()
    model, data = example.write(built)
    expected = model(*example.call_arguments(data)).detach()
    infer = built / "build" / "infer"
    for name in ("model.pt2", "model.pt"):
        run(infer, built / name, built / "graph.pt", built / "output.pt")
        torch.testing.assert_close(torch.load(built / "output.pt"), expected)
    libraries = [line.split()[0] for line in run("ldd", infer).splitlines()]
    assert not [name for name in libraries if "libpython" in name or "libLLVM" in name]

    wide = example.EdgeList(data.src, data.dst, torch.randn(300, 9))
    torch.jit.script(wide).save(str(built / "wide.pt"))
    wrong = subprocess.run(
        [infer, built / "model.pt", built / "wide.pt", built / "none.pt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode == 1
    assert "shapes cannot be multiplied" in wrong.stderr
