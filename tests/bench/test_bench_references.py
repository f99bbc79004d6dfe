"""Reference costs: made in parts, found again, and refused where they do not belong."""

from pathlib import Path

import numpy as np
import pytest
import small

from elgo.bench import references
from elgo.bench.catalogue import load_group
from elgo.bench.references import find_references, make_references, read_references, with_references
from elgo.bench.sets import Selection, load_set
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Metric


def test_optimal_costs_of_squares(tmp_path: Path) -> None:
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.0]])
    instances = [small.instance("tsp", 5, metric=Metric.EXACT, name="a")]
    square = instances[0].__class__("b", corners, Metric.EXACT)
    file = make_references("mine", [square], tmp_path, 0.01)
    assert read_references(file).cost.tolist() == [4.0]
    assert [it.best_known for it in with_references("mine", [square], tmp_path)] == [4.0]
    assert [it.best_known for it in with_references("mine", instances, tmp_path)] == [None]  # other instances


def test_costs_are_made_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "SAVED", 2)
    instances = [small.instance("tsp", 9, seed, metric=Metric.EXACT) for seed in range(5)]
    file = make_references("mine", instances[:2], tmp_path, 0.01)
    solved: list[int] = []
    solve = references._solve
    monkeypatch.setattr(references, "_solve", lambda it, seconds, seed: solved.append(seed) or solve(it, seconds, seed))
    said: list[int] = []
    make_references("mine", instances, tmp_path, 0.01, lambda done, total, mean: said.append(done))
    assert solved == [2, 3, 4]
    assert said == [4, 5]
    assert len(read_references(file).cost) == 5
    found = with_references("mine", instances[:3], tmp_path)  # a part: the same part of the costs
    assert [it.best_known for it in found] == pytest.approx(read_references(file).cost[:3].tolist())
    with pytest.raises(ValueError, match=r"made by fast_tsp, 0.01 s of CPU time, now it would be fast_tsp, 0.02 s"):
        make_references("mine", instances, tmp_path, 0.02)
    with pytest.raises(ValueError, match="holds costs of other instances than mine"):
        make_references("mine", instances[::-1], tmp_path, 0.01)


def test_other_rounding_is_refused(tmp_path: Path) -> None:
    instances = [small.instance("tsp", 9, metric=Metric.EXACT)]
    file = make_references("mine", instances, tmp_path, 0.01)
    with np.load(file) as stored:
        np.savez(file, **{**stored, "metric": "EUC_2D"})
    with pytest.raises(ValueError, match=r"mine.npz: costs are EUC_2D, but those of mine are EXACT_2D: other rounding"):
        find_references("mine", instances, tmp_path)
    with pytest.raises(ValueError, match="references are made of unrounded sets"):
        make_references("other", [small.instance("tsp", 9)], tmp_path, 0.01)


def test_broken_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    file.write_bytes(b"no archive")
    with pytest.raises(ElgoError, match=r"mine\.npz: not an \.npz file of numbers"):
        read_references(file)
    np.savez(file, cost=np.ones(2))
    with pytest.raises(ElgoError, match=r"not a file of reference costs \('checksum' is missing"):
        read_references(file)
    np.savez(file, cost=np.ones(2), checksum=np.ones(3), metric="EXACT_2D", solver="x")
    with pytest.raises(ValueError, match=r"cost has shape \(2,\)"):
        read_references(file)


def test_a_part_of_uniform_instances_has_its_own_references(tmp_path: Path) -> None:
    instances = load_group("TSP100", tmp_path, 2)
    costs = [7.0, 8.0]
    (tmp_path / "references").mkdir()
    references._write(tmp_path / "references" / "TSP100.npz", costs, instances, "a solver")
    found = load_set("uniform", tmp_path, Selection("tsp", limit=2))
    assert [entry.instance.best_known for entry in found.entries] == costs
    more = load_set("uniform", tmp_path, Selection("tsp", limit=3))
    assert [entry.instance.best_known for entry in more.entries][:2] == costs


def test_shipped_references_are_those_of_the_sets() -> None:
    for file in references.SHIPPED.glob("*.npz"):
        instances = load_group(file.stem, Path("none"), 20)
        found = read_references(file)
        assert found.metric == "EXACT_2D"
        assert found.fits(instances) or file.stem.endswith(("cluster_100", "mixture_100"))  # of the paper's files
