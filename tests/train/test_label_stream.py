"""Streams: instance i depends on the stream and i alone."""

import numpy as np
import pytest

from elgo.train.label_stream import LabelStream, parse_sizes


def test_sizes() -> None:
    assert parse_sizes("100,200") == ((100, 100), (200, 200))
    assert parse_sizes("50-1000,100") == ((50, 1000), (100, 100))
    with pytest.raises(ValueError, match="sizes is 'many'"):
        parse_sizes("many")
    sizes = [LabelStream("tsp", ((50, 1000),)).size(i) for i in range(2000)]
    assert min(sizes) < 60
    assert max(sizes) > 900
    assert max(sizes) <= 1000
    assert np.mean(np.array(sizes) < 224) == pytest.approx(0.5, abs=0.05)  # log-uniform: half below sqrt(50 * 1000)


def test_instances_depend_on_seed_and_index_alone() -> None:
    stream = LabelStream("cvrp", ((20, 80),), seed=3)
    forward = [stream.sample(i) for i in range(6)]
    for i in reversed(range(6)):
        again = LabelStream("cvrp", ((20, 80),), seed=3).sample(i)
        assert np.array_equal(forward[i].coords, again.coords)
        assert forward[i].capacity == again.capacity
    other = LabelStream("cvrp", ((20, 80),), seed=4).sample(0)
    validation = LabelStream("cvrp", ((20, 80),), seed=3, validation=True).sample(0)
    assert other.coords.tobytes() != forward[0].coords.tobytes() != validation.coords.tobytes()


def test_groups_share_their_size() -> None:
    stream = LabelStream("tsp", ((20, 500),), group=8)
    sizes = np.array([stream.size(i) for i in range(80)]).reshape(10, 8)
    assert (sizes == sizes[:, :1]).all()
    assert len(set(sizes[:, 0].tolist())) > 5
    assert not np.array_equal(stream.sample(0).coords, stream.sample(1).coords)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"problem": "vrptw", "sizes": ((10, 10),)}, "problem is 'vrptw'"),
        ({"problem": "tsp", "sizes": ()}, "sizes is"),
        ({"problem": "tsp", "sizes": ((20, 10),)}, "sizes is"),
        ({"problem": "tsp", "sizes": ((10, 10),), "group": 0}, "group is 0"),
        ({"problem": "tsp", "sizes": ((10, 10),), "seed": -1}, "seed is -1"),
    ],
)
def test_broken_streams(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelStream(**fields)
