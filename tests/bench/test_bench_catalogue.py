"""`elgo data list`: every named set is what its entry says."""

from pathlib import Path

import numpy as np
import pytest
import small

from elgo.bench.catalogue import (
    catalogue_table,
    content_sha256,
    load_group,
    measured_count,
    named_sets,
    without_references,
)
from elgo.bench.sets import FILE_SETS, GENERATED, load_set


def row(data: Path, name: str) -> dict[str, str]:
    table = catalogue_table(data)
    return next(dict(zip(table.header, cells, strict=True)) for cells in table.rows if cells[0] == name)


def test_every_set_is_listed(tmp_path: Path) -> None:
    table = catalogue_table(tmp_path)
    listed = {cells[0] for cells in table.rows}
    assert {*FILE_SETS, "TSP100", "CVRP100", "tsp_cluster_100", "cvrp_rotation_200", "scaling"} <= listed
    assert "validation-tsp-mixed-100" in listed
    rows = {cells[0]: dict(zip(table.header, cells, strict=True)) for cells in table.rows}
    assert rows["tsplib"]["here"] == "no: elgo data fetch tsplib"
    assert rows["TSP100"]["here"] == rows["tsp_rotation_200"]["here"] == "generated"
    assert rows["tsp_cluster_100"]["here"] == "generated, not the paper's"
    assert rows["CVRP100"]["seed"] == "1234"
    for name, known in named_sets().items():
        if rows[name]["here"] == "generated":
            assert rows[name]["SHA-256"] == known.sha256


def test_files_are_looked_for_and_compared(tmp_path: Path) -> None:
    small.tsplib(tmp_path / "tsplib")
    assert row(tmp_path, "tsplib")["here"] == "no: 3 of 49; elgo data fetch tsplib"
    small.tsplib(tmp_path / "tsplib", FILE_SETS["tsplib"].names)
    assert row(tmp_path, "tsplib")["here"] == "OTHER INSTANCES"


def test_the_benchmark_files(data: Path) -> None:
    for cells in catalogue_table(data).rows:
        assert "OTHER" not in " ".join(cells)
        assert not cells[-2].startswith("no")


def test_a_hash_knows_instances_and_rounding() -> None:
    first, second = small.instance("tsp", 9), small.instance("tsp", 9, seed=1)
    hashes = {content_sha256(x) for x in ([first], [second], [first, second], [second, first])}
    assert len(hashes) == 4
    assert content_sha256([first]) == content_sha256([small.instance("tsp", 9, name="another name")])


def test_sets_without_references(tmp_path: Path) -> None:
    assert without_references(tmp_path)[:2] == ["tsp_cluster_100", "tsp_mixture_100"]  # the package has TSP100, CVRP100
    coords = np.random.default_rng(0).random((1, 5, 2))
    np.savez(tmp_path / "tsp_cluster_100.npz", coords=coords, reference_cost=np.ones(1))
    assert without_references(tmp_path)[0] == "tsp_mixture_100"
    assert (measured_count("CVRP100"), measured_count("cvrp_cluster_200")) == (1000, 100)


def test_groups() -> None:
    assert [it.name for it in load_group("cvrp_explosion_100", Path("none"), 2)] == [
        "cvrp_explosion_100-0000",
        "cvrp_explosion_100-0001",
    ]
    assert load_group("cvrp_cluster_200", Path("none"), 1)[0].capacity == 80
    with pytest.raises(ValueError, match="tsplib: no such set of instances of one size; there are TSP100, CVRP100"):
        load_group("tsplib", Path("none"))
    assert set(GENERATED) == {"uniform", "synthetic", "scaling"}
    assert len(load_set("scaling").entries) == named_sets()["scaling"].instances
