"""Inputs: what each kind yields, in which order, and what is refused. Streams are not read ahead."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from elgo.bulk import inputs
from elgo.bulk.inputs import Source, open_inputs, parse_record
from elgo.bulk.work import Item
from elgo.problem.files import write_instance
from elgo.problem.generate import kool_test_set
from elgo.problem.instance import Instance, Metric

SQUARE = [[0, 0], [0, 1], [1, 1], [1, 0]]


def instance_of(item: Item) -> Instance:
    """The instance of an item, made as a worker makes it."""
    assert not isinstance(item.data, ValueError), item.data
    return item.data if isinstance(item.data, Instance) else item.data()


def only(*texts: object, capacity: float | None = None) -> tuple[Source, list[Item]]:
    (source,) = open_inputs(map(str, texts), capacity)
    return source, list(source.items())


def test_jsonl(tmp_path: Path) -> None:
    records = [
        {"name": "a", "coords": SQUARE, "best_known": 4},
        {"coords": SQUARE, "demand": [0, 1, 1, 1], "capacity": 2, "metric": "EUC_2D"},
        {"matrix": [[0, 1], [2, 0]]},
    ]
    file = tmp_path / "set.jsonl"
    file.write_text("\n\n".join(map(json.dumps, records)))
    source, items = only(file)
    assert [item.number for item in items] == [0, 2, 4]  # numbers of lines, blank ones included
    assert source.size == 5
    first, second, third = map(instance_of, items)
    assert (first.name, first.problem, first.best_known, first.metric) == ("a", "tsp", 4, Metric.EXACT)
    assert (second.name, second.problem, second.capacity, second.metric) == ("set-0002", "cvrp", 2, Metric.EUC_2D)
    assert third.distances(1, 0) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1: not JSON \\(Expecting property name enclosed in double quotes: line 1 column 2"),
        ("[" * 100_000, "line 1: not JSON \\(nested too deeply"),
        ("[1]", "line 1: holds \\[1\\], expected an object"),
        ("{}", "line 1: coords is missing"),
        ('{"coords": [[0, 0]], "windows": 1}', "line 1: has the field 'windows'; there are name, coords"),
        ('{"coords": [[0, "a"]]}', "line 1: COORDS is not an array of numbers"),
        ('{"coords": [[0, 0]], "capacity": "9"}', "line 1: capacity is '9', expected a number"),
        ('{"coords": [[0, 0]], "best_known": true}', "line 1: best_known is 'True', expected a number"),
        ('{"matrix": [[0]], "metric": "EUC_2D"}', "line 1: metric is 'EUC_2D', but distances are given by matrix"),
        ('{"coords": [[0, 0], [0, 1]], "demand": [0, 3], "capacity": 2}', "line 1: DEMAND of node 2 is 3"),
    ],
)
def test_wrong_lines(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text(line)
    _, (item,) = only(file)
    with pytest.raises(ValueError, match=words):
        instance_of(item)


def test_jsonl_streams(tmp_path: Path) -> None:
    """A line is read when it is asked for: what is added to the file meanwhile is found."""
    file = tmp_path / "set.jsonl"
    line = json.dumps({"coords": SQUARE}) + "\n"
    file.write_text(line * 10_000)
    (source,) = open_inputs([str(file)])
    items = source.items()
    next(items)
    with open(file, "a") as more:
        more.write(line)
    assert sum(1 for _ in items) == 10_000


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.Table.from_pylist(
        [
            {"name": "a", "coords": SQUARE, "demand": [0, 1, 1, 1], "capacity": 2.0, "own": 1},
            {"name": None, "coords": SQUARE[:2], "demand": None, "capacity": None, "own": 2},
        ]
    )
    parquet.write_table(table, tmp_path / "set.parquet")
    source, items = only(tmp_path / "set.parquet")
    assert source.size == 2
    assert [instance_of(item).problem for item in items] == ["cvrp", "tsp"]
    assert instance_of(items[1]).name == "set-0001"
    parquet.write_table(table.select(["own"]), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other.parquet: coords is missing; the columns are own"):
        only(tmp_path / "other.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "set.parquet").read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"cut.parquet: not a Parquet file, or a folder of them"):
        only(tmp_path / "cut.parquet")


def test_npy_is_mapped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tsp, cvrp = rng.random((3, 5, 2), dtype=np.float32), np.concatenate([rng.random((2, 5, 2)), np.ones((2, 5, 1))], 2)
    cvrp[:, 0, 2] = 0
    np.save(tmp_path / "tsp.npy", tsp)
    np.save(tmp_path / "cvrp.npy", cvrp)
    source, items = only(tmp_path / "tsp.npy")
    assert source.size == 3
    np.testing.assert_array_equal(instance_of(items[2]).coords, tsp[2].astype(np.float64))
    _, items = only(tmp_path / "cvrp.npy", capacity=2)
    assert instance_of(items[1]).units()[0].tolist() == [0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"cvrp.npy: has demands, so it needs a capacity"):
        only(tmp_path / "cvrp.npy")
    np.save(tmp_path / "flat.npy", tsp[0])
    with pytest.raises(ValueError, match=r"flat.npy: is float32 of shape"):
        only(tmp_path / "flat.npy")
    (tmp_path / "text.npy").write_text("0.5 0.5 0.5")
    with pytest.raises(ValueError, match=r"text.npy: not an array of numbers \(the magic string is not correct"):
        only(tmp_path / "text.npy")


def test_npz_and_pickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", coords=[SQUARE, SQUARE])
    (tmp_path / "b.pkl").write_bytes(pickle.dumps([([0, 0], SQUARE, [1, 1, 1, 1], 2)]))
    sources = open_inputs([str(tmp_path / "a.npz"), str(tmp_path / "b.pkl")])
    assert [source.size for source in sources] == [2, 1]
    assert instance_of(next(sources[1].items())).problem == "cvrp"


def test_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_instance(tmp_path / f"{name}.tsp", Instance.from_coords(SQUARE, name=name, metric="EUC_2D"))
    (tmp_path / "broken.vrp").write_text("NAME : x\n")
    files = [str(tmp_path / name) for name in ("a.tsp", "b.tsp", "broken.vrp")]
    assert [source.name for source in open_inputs([str(tmp_path)])] == files
    assert [source.name for source in open_inputs([f"{tmp_path}/*.tsp", files[0]])] == files[:2]  # each once
    (item,) = open_inputs([files[2]])[0].items()
    assert isinstance(item.data, ValueError)
    (source,) = open_inputs([files[0]])
    Path(files[0]).unlink()
    (item,) = source.items()
    assert str(item.data) == f"{files[0]}: cannot be read (No such file or directory)"
    with pytest.raises(ValueError, match="no file matches"):
        open_inputs([f"{tmp_path}/*.csv"])


def test_generated_sets() -> None:
    source, items = only("random:cvrp:20:3:cluster:5")
    assert (source.name, source.size) == ("random:cvrp:20:cluster:5", 3)
    assert [instance_of(item).customers for item in items] == [20] * 3
    again = only("random:cvrp:20:9:cluster:5")[1]
    np.testing.assert_array_equal(instance_of(items[2]).coords, instance_of(again[2]).coords)
    _, items = only("kool:tsp:2")
    np.testing.assert_array_equal(instance_of(items[1]).coords, kool_test_set("tsp", 2)[1].coords)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kool:vrp", "kool:vrp: problem is 'vrp'"),
        ("kool:tsp:10001", "count is '10001', expected a whole number from 1 to 10000"),
        ("kool:tsp:1:2", "kool:tsp:1:2: expected random:PROBLEM"),
        ("random:tsp:20", "expected random:PROBLEM"),
        ("random:tsp:x:5", "N is 'x'"),
        ("random:tsp:²:5", "N is '²'"),
        ("random:tsp:10000000:5", "N is '10000000', expected a whole number from 1 to 1000000"),
        ("random:tsp:5:99999999999999999999", "count is '99999999999999999999'"),
        ("random:tsp:20:5:star", "distribution is 'star'"),
        ("none.jsonl", "none.jsonl: no such file"),
    ],
)
def test_wrong_inputs(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        open_inputs([text])


def test_large_files_are_refused_unless_they_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", coords=[SQUARE])
    (tmp_path / "a.jsonl").write_text(json.dumps({"coords": SQUARE}))
    monkeypatch.setattr(inputs, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match=r"a.npz: has 0.0 GB, at most 1e-08 GB are read at once; write JSONL"):
        open_inputs([str(tmp_path / "a.npz")])
    assert len(only(tmp_path / "a.jsonl")[1]) == 1


def test_record_of_a_matrix_with_coordinates() -> None:
    instance = parse_record({"matrix": [[0, 1], [1, 0]], "coords": [[0, 0], [5, 5]]}, "x")
    assert instance.has_coords
    assert instance.metric is Metric.EXPLICIT
