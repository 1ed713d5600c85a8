"""The molecules example on six molecules: reading them, and training eagerly and compiled."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import gossamer as gs

sys.path.append(str(Path(__file__).parents[2] / "examples" / "molecules"))

import molfile
import solubility
import train

SIX = Path(__file__).with_name("molecules.sdf")


@pytest.fixture(scope="module")
def examples():
    return solubility.examples(molfile.read(SIX))


def test_molecules_are_read():
    molecules = {molecule.title: molecule for molecule in molfile.read(SIX)}
    assert list(molecules)[:2] == ["ethanol", "methane"]
    assert molecules["ethanol"].elements == ("C", "C", "O")
    assert molecules["ethanol"].bonds == ((0, 1, 1), (1, 2, 1))
    assert molecules["ethanol"].data == {"NAME": "ethanol", "SOL": "1.1"}
    assert molecules["methane"].bonds == ()
    assert molecules["methane"].data == {"SOL": "-0.9"}
    assert molecules["acetate"].charges == (0, 0, 0, -1)
    assert molecules["methylammonium"].charges == (0, 1)
    assert molecules["chlorobenzene"].elements[-1] == "Cl"
    assert [kind for *_, kind in molecules["chlorobenzene"].bonds] == [4] * 6 + [1]


def test_windows_line_ends(tmp_path):
    copy = tmp_path / "windows.sdf"
    copy.write_bytes(SIX.read_bytes().replace(b"\n", b"\r\n"))
    assert molfile.read(copy) == molfile.read(SIX)


def test_molecules_as_graphs(examples):
    ethanol, methane, _, ammonium, ring, tin = (example.graph for example in examples)
    assert [ids.tolist() for ids in ethanol.edges()] == [[0, 1, 1, 2], [1, 2, 0, 1]]
    names = [*solubility.ELEMENTS, "other", *"01234", "charge"]
    oxygen = {name for name, x in zip(names, ethanol.ndata["x"][2], strict=True) if x}
    assert oxygen == {"O", "1"}
    assert methane.ndata["x"].tolist() == [[1.0] + [0.0] * 9 + [1.0] + [0.0] * 5]
    assert ammonium.ndata["x"][:, -1].tolist() == [0, 1]
    assert ring.edata["bond"].argmax(1).tolist() == ([3] * 6 + [0]) * 2
    assert tin.ndata["x"][3, names.index("other")] == 1


DAMAGE = {
    "no version": ("V2000", "V3000", "21: .*ethanol.*V2000"),
    "a count": ("  3  2  0", "  x  2  0", r"21: .*number of atoms in columns 1 to 3 is '  x'"),
    "no element": ("0.0000 O ", "0.0000 1 ", "24: .*no element in columns 32 to 34"),
    "charge": ("O   0  0", "O   0  9", "24: .*charge code is 9"),
    "end of a bond": ("  2  3  1", "  2  4  1", "26: .*bond of atom 4, but there are 3 atoms"),
    "type of a bond": ("  2  3  1", "  2  3  8", "26: .*bond type is 8"),
    "charges": ("M  END", "M  CHG  2   1  -1\nM  END", "27: .*charges of 3 atoms"),
    "no end": ("M  END\n", "", "before M  END"),
    "no molecule": ("V2000\n", "V2000\n$$$$\n", "21: .*ends within its molecule"),
    "cut off": ("$$$$\n", "", "ends before the "),
    "no value": ("<SOL>\n1.1", "<SOL>\nhigh", "ethanol: its solubility <SOL> is 'high'"),
    "no atom": ("  3  2  0", "  0  0  0", "ethanol has no atom"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_records(tmp_path, damage):
    """Behind an intact record; the message has the line, the molecule and the reason."""
    old, new, message = DAMAGE[damage]
    record = SIX.read_text().partition("$$$$\n")[0] + "$$$$\n"
    assert old in record
    path = tmp_path / "damaged.sdf"
    path.write_text(record + record.replace(old, new, 1))
    with pytest.raises(molfile.DamagedRecord, match=message):
        solubility.examples(molfile.read(path))


def test_gradients_of_a_batch(examples):
    """Compiled as eager, in float64, all of it in kernels, also as one program."""
    graph, truth = solubility.collate(examples)
    model = train.make_model(examples).double()
    graph.ndata["x"], graph.edata["bond"] = graph.ndata["x"].double(), graph.edata["bond"].double()
    fast = gs.compile(model, fallback="error")

    def gradients(each):
        loss = (each(graph, graph.ndata["x"]) - truth).square().mean()
        return loss, torch.autograd.grad(loss, list(model.parameters()))

    expected = gradients(model)
    for mode in ("region", "whole"):
        torch.testing.assert_close(gradients(fast), expected, rtol=1e-10, atol=1e-12)
        assert gs.explain(fast).mode == mode
    assert set(gs.explain(fast).code_paths.values()) == {"kernel"}


def test_training(examples, tmp_path):
    """Eager and compiled training stay together; the picture is drawn."""
    many = examples * 12
    scale = train.Scale.of(many)
    runs = {}
    for name, wrap in {"eager": lambda model: model, "compiled": gs.compile}.items():
        runs[name] = train.fit(wrap(train.make_model(many)), scale, many, examples, 3, name)
    torch.testing.assert_close(runs["compiled"].losses, runs["eager"].losses, rtol=1e-3, atol=1e-5)
    assert runs["compiled"].losses[-1] < runs["compiled"].losses[0]
    truth = torch.tensor([[example.solubility] for example in examples])
    error = train.rmse(runs["compiled"].predicted, truth)
    assert error < train.rmse(torch.full_like(truth, scale.mean), truth)
    train.draw(tmp_path / "picture.png", runs, truth)
    assert (tmp_path / "picture.png").stat().st_size > 10_000
