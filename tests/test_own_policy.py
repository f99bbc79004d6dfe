"""Networks of one's own: another global policy in the ensemble, and a policy that is no ensemble at all."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import small
import torch
import torch.nn.functional as F
from samples import random_instance, random_policy, small_config
from tiny import NETWORK, fill, simple_labels
from torch import Tensor, nn

import elgo
from elgo.bench.command import bench
from elgo.bench.methods import Method, Options
from elgo.bench.run import read_records
from elgo.bench.sets import BenchSet, Entry
from elgo.decode.compiled import supports
from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import make_task
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy, with_local
from elgo.model.env import ENVIRONMENTS, Batch, State, make_batch
from elgo.model.global_policy import GlobalPolicy, split_heads
from elgo.problem.task import PROBLEMS, ProblemName
from elgo.solve.solver import solve
from elgo.train.config import Config, DataConfig, ImitationConfig, ReinforceConfig, TrainConfig
from elgo.train.config import Method as TrainingMethod
from elgo.train.loop import train


class Nodes(NamedTuple):
    """What the decoder needs of an instance."""

    batch: Batch
    embedded: Tensor  # (B, N, D)


class FeedForwardPOMO(nn.Module):
    """POMO with a feed-forward block and a residual after the glimpse."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.pomo = GlobalPolicy(config)
        self.up, self.down = nn.Linear(config.width, config.hidden), nn.Linear(config.hidden, config.width)

    def encode(self, batch: Batch) -> Nodes:
        return Nodes(batch, self.pomo.embeddings(batch))

    def scores(self, encoding: Nodes, state: State, mask: Tensor) -> Tensor:
        nodes, pomo = encoding.embedded, self.pomo
        rows = torch.arange(len(nodes))[:, None]
        query = pomo.query_last(nodes[rows, state.current])
        if pomo.query_first is not None:
            query = query + pomo.query_first(nodes[rows, state.first])
        if pomo.query_load is not None:
            query = query + pomo.query_load(pomo.env.load_share(encoding.batch, state)[..., None])
        heads = [split_heads(x, pomo.heads) for x in (query, pomo.key(nodes), pomo.value(nodes))]
        glimpse = F.scaled_dot_product_attention(*heads, attn_mask=mask[:, None]).transpose(1, 2).flatten(2)
        query = pomo.combine(glimpse)
        query = query + self.down(F.relu(self.up(query)))
        return query @ nodes.transpose(1, 2) / math.sqrt(nodes.shape[2])


def own_policy(problem: ProblemName, seed: int = 0) -> Policy:
    torch.manual_seed(seed)
    return Policy(small_config(problem), FeedForwardPOMO).eval()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_without_its_block_it_is_the_papers(problem: ProblemName) -> None:
    paper, own = random_policy(small_config(problem), scale=1.5), own_policy(problem)
    assert isinstance(own.global_, FeedForwardPOMO)
    own.global_.pomo.load_state_dict(paper.global_.state_dict())
    own.local.load_state_dict(paper.local.state_dict())
    instance = random_instance(problem, 12)
    batch = make_batch([make_task(instance)])
    state = ENVIRONMENTS[problem].start(batch, torch.tensor([[3, 5]]))
    with torch.no_grad():
        expected = paper.logits(paper.encode(batch), state)
        assert not torch.allclose(own.logits(own.encode(batch), state), expected, atol=1e-2)
        own.global_.down.weight.zero_()
        own.global_.down.bias.zero_()
        assert torch.allclose(own.logits(own.encode(batch), state), expected, atol=1e-4)
    assert np.array_equal(elgo.rollouts(own, instance)[0], elgo.rollouts(paper, instance)[0])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_it_decodes_in_torch(problem: ProblemName) -> None:
    policy, instance = own_policy(problem), random_instance(problem, 12)
    assert not supports(policy)
    with pytest.raises(ValueError, match="path is 'compiled', but the kernels know only the paper's network"):
        decode(policy, [make_task(instance)], [np.array([1])], DecodeConfig(path="compiled"))
    tours, costs = elgo.rollouts(policy, instance, rng=np.random.default_rng(0))
    log_p = elgo.log_prob(policy, instance, tours)
    assert log_p.shape == costs.shape == (instance.customers,)
    log_p.sum().backward()
    assert isinstance(policy.global_, FeedForwardPOMO)
    assert policy.global_.up.weight.grad is not None
    result = elgo.solve(instance, start=policy, time_limit=2)
    assert result.solution.feasible
    assert result.starts > 0


def test_the_local_policy_is_switched_without_touching_the_rest() -> None:
    policy = own_policy("tsp")
    off = with_local(policy, False)
    assert (policy.config.local_policy, off.config.local_policy) == (True, False)
    assert isinstance(off.global_, FeedForwardPOMO)
    assert all(torch.equal(off.state_dict()[name], value) for name, value in policy.state_dict().items())
    assert off.global_.up.weight is not policy.global_.up.weight  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["reinforce", "imitate"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_training_benchmark_and_file(problem: ProblemName, method: str, tmp_path: Path) -> None:
    options: TrainingMethod = ReinforceConfig(starts=4)
    if method == "imitate":
        options = ImitationConfig(
            sequences=2, labels=(str(fill(tmp_path / "labels", simple_labels(problem, [10] * 6))),)
        )
    config = Config(
        PolicyConfig(problem, **NETWORK),
        DataConfig(sizes="10", batch=4),
        options,
        TrainConfig(steps=3, lr=1e-3, global_steps=1, ema=0.5),
    )
    file = train(config, tmp_path / "run", tmp_path, global_policy=FeedForwardPOMO)
    policy = elgo.load_model(file, global_policy=FeedForwardPOMO)
    assert policy.config.local_policy
    with pytest.raises(ValueError, match=r"last.safetensors: tensor 'global_.\S+' is (missing|unknown)"):
        elgo.load_model(file)
    longer = Config(config.policy, config.data, options, TrainConfig(steps=4, lr=1e-3, global_steps=1, ema=0.5))
    again = elgo.load_model(
        train(longer, tmp_path / "run", tmp_path, global_policy=FeedForwardPOMO), global_policy=FeedForwardPOMO
    )
    changed = [name for name, value in policy.state_dict().items() if not torch.equal(value, again.state_dict()[name])]
    assert "global_.up.weight" in changed
    instances = [small.instance(problem, 9, seed, f"i{seed}") for seed in range(2)]
    bench_set = BenchSet("mine", "Mine", [Entry("all", instance) for instance in instances])
    table = bench(bench_set, [Method("own", model=again, starts=3, symmetries=1)], Options(), tmp_path / "bench")
    assert table.rows[0][0] == "own"
    assert all(record.cost for record in read_records(tmp_path / "bench"))


class NearestNeighbour(nn.Module):
    """A policy without parameters or ensemble: the nearest node is the likeliest."""

    def __init__(self, problem: ProblemName) -> None:
        super().__init__()
        self.config, self.env, self.device = PolicyConfig(problem), ENVIRONMENTS[problem], torch.device("cpu")

    def encode(self, batch: Batch) -> Nodes:
        return Nodes(batch, torch.cdist(batch.coords, batch.coords).float())

    def prepare(self, encoding: Nodes) -> Nodes:
        return encoding

    def scores(self, encoding: Nodes, state: State) -> tuple[Tensor, Tensor]:
        valid = self.env.valid(encoding.batch, state)
        rows = torch.arange(len(encoding.embedded))[:, None]
        return -encoding.embedded[rows, state.current], torch.where(valid, 0.0, -torch.inf)

    def logits(self, encoding: Nodes, state: State) -> Tensor:
        return torch.add(*self.scores(encoding, state))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_policy_that_is_no_ensemble(problem: ProblemName, tmp_path: Path) -> None:
    policy, instance = NearestNeighbour(problem), random_instance(problem, 12)
    tours, costs = elgo.rollouts(policy, instance)
    if problem == "tsp":
        nearest = instance.distance_matrix()
        for tour in tours:
            for step in range(1, 12):
                assert nearest[tour[step - 1], tour[step]] == min(nearest[tour[step - 1], tour[step:]])
    sampled, _ = elgo.rollouts(policy, instance, rng=np.random.default_rng(0))
    assert elgo.log_prob(policy, instance, sampled).isfinite().all()
    assert solve(instance, policy_only=True, model=policy, symmetries=1).cost == costs.min()
    bench_set = BenchSet("mine", "Mine", [Entry("all", instance)])
    bench(bench_set, [Method("nn", model=policy, symmetries=1)], Options(), tmp_path / "bench")
    (record,) = read_records(tmp_path / "bench")
    assert record.cost == costs.min()
