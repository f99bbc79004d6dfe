"""The published ELG code (lamda-bbo/ELG) for comparison: what it computes, written again in plain torch.

Written from the code's behaviour and with its names of tensors, independently of the package; one instance at a time, M
rollouts side by side. Two liberties: arithmetic is in float64, and of equal distances the lower index is the nearer
one (the published code sorts float32 distances by topk, which leaves the order of equal ones open).
"""

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Tensors = dict[str, Tensor]
INF = float("inf")


class Params(NamedTuple):
    """What the section model_params of the published config.yml says, under shorter names."""

    problem: str
    neighbours: int = 30  # local_size
    xi: float = -1.0
    clip: float = 50.0  # logit_clipping
    heads: int = 8
    local_heads: int = 4
    width: int = 128
    layers: int = 6
    hidden: int = 512
    local_width: int = 32
    ensemble: bool = True
    penalty: bool = True
    positional: bool = True
    euclidean: bool = False

    def config_yml(self) -> str:
        """The config.yml, in the published form."""
        return (
            "name: ELG\nuse_cuda: True\nload_checkpoint: weights/ELG.pt\n# load_checkpoint:\n"
            "params:\n  problem_size: 100\n  learning_rate: 0.0001\n  xi: 7\n"
            f"model_params:\n  ensemble: {self.ensemble} # [True, False]\n  distance_penalty: {self.penalty}\n"
            f"  positional: {self.positional}\n  ensemble_size: 1\n  xi: {self.xi:g}\n"
            f"  local_size: [{self.neighbours}]\n  euclidean: {self.euclidean}\n"
            + ("  demand: True # [True, False]\n" if self.problem == "cvrp" else "")
            + f"  embedding_dim: {self.width}\n  encoder_layer_num: {self.layers}\n  head_num: {self.heads}\n"
            f"  qkv_dim: {self.width // self.heads}\n  logit_clipping: {self.clip:g}\n  ff_hidden_dim: {self.hidden}\n"
            f"  local_att_hidden_dim: {self.local_width}\n  local_att_head_num: {self.local_heads}\n"
            f"  local_att_qkv_dim: {self.local_width // self.local_heads}"
        )


def random_checkpoint(params: Params, seed: int = 0) -> Tensors:
    """A state dict as the published network has it, as it begins, but with norms that are not 1 and 0."""
    rng = torch.Generator().manual_seed(seed)
    out: Tensors = {}

    def linear(name: str, outputs: int, inputs: int, bias: bool = True) -> None:
        bound = 1 / math.sqrt(inputs)
        out[f"{name}.weight"] = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=rng)
        if bias:
            out[f"{name}.bias"] = torch.empty(outputs).uniform_(-bound, bound, generator=rng)

    width, cvrp = params.width, params.problem == "cvrp"
    if cvrp:
        linear("encoder.embedding_depot", width, 2)
    linear("encoder.embedding_node" if cvrp else "encoder.embedding", width, 3 if cvrp else 2)
    for i in range(params.layers):
        layer = f"encoder.layers.{i}"
        for part in ("Wq", "Wk", "Wv"):
            linear(f"{layer}.{part}", width, width, bias=False)
        linear(f"{layer}.multi_head_combine", width, width)
        linear(f"{layer}.{'feed_forward' if cvrp else 'feedForward'}.W1", params.hidden, width)
        linear(f"{layer}.{'feed_forward' if cvrp else 'feedForward'}.W2", width, params.hidden)
        for norm in norm_names(params.problem):
            out[f"{layer}.{norm}.weight"] = 1 + torch.randn(width, generator=rng) / 4
            out[f"{layer}.{norm}.bias"] = torch.randn(width, generator=rng) / 4
    if not cvrp:
        linear("decoder.Wq_first", width, width, bias=False)
    linear("decoder.Wq_last", width, width + cvrp, bias=False)
    for part in ("Wk", "Wv"):
        linear(f"decoder.{part}", width, width, bias=False)
    linear("decoder.multi_head_combine", width, width)
    if params.ensemble:
        name = local_name(params.problem)
        out[f"{name}.cur_token_emb"] = torch.randn(params.local_width, generator=rng)
        linear(f"{name}.init_emb", params.local_width, 3 if cvrp else 2)
        for part in ("Wq", "Wk", "Wv"):
            linear(f"{name}.{part}", params.local_width, params.local_width, bias=False)
        linear(f"{name}.multi_head_combine", params.local_width, params.local_width)
    return out


def norm_names(problem: str) -> tuple[str, str]:
    if problem == "cvrp":
        return "add_n_normalization_1.norm", "add_n_normalization_2.norm"
    return "addAndNormalization1.norm", "addAndNormalization2.norm"


def local_name(problem: str) -> str:
    return "decoder.local_policies.0" if problem == "cvrp" else "decoder.local_policy_0"


def scaled(problem: str, coords: np.ndarray) -> np.ndarray:
    """Coordinates of a library's file as the published evaluation scales them."""
    if problem == "tsp":
        return (coords - coords.min()) / (coords.max() - coords.min())
    x, y = coords.T
    return np.stack([(x - x.min()) / (x.max() - x.min()), (y - y.min()) / (y.max() - y.min())], axis=1)


class Partial(NamedTuple):
    """M partial solutions of an instance."""

    first: Tensor  # (M,)
    current: Tensor  # (M,)
    open: Tensor  # (M, N) nodes that may come next
    load: Tensor  # (M,) left, as a share of the capacity; 1 in TSP


class Published:
    """A checkpoint with its parameters, for one instance: nodes (N, 2) and, in CVRP, demands as shares (N,)."""

    def __init__(self, params: Params, tensors: Tensors, nodes: np.ndarray, demand: np.ndarray | None = None) -> None:
        self.p, self.w = params, {name: value.double() for name, value in tensors.items()}
        self.nodes = torch.tensor(nodes, dtype=torch.float64)
        self.demand = torch.zeros(len(nodes)).double() if demand is None else torch.tensor(demand, dtype=torch.float64)
        self.distance = torch.cdist(self.nodes[None], self.nodes[None], compute_mode="donot_use_mm_for_euclid_dist")[0]
        self.embedded = self.encode()

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def attend(self, name: str, query: Tensor, k: Tensor, v: Tensor, heads: int, allowed: Tensor | None) -> Tensor:
        """Multi-head attention of queries (..., Q, D) over (..., T, D), and the layer that combines the heads."""
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(-2, -3) for x in (query, k, v))
        score = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if allowed is not None:
            score = score.masked_fill(~allowed, -INF)
        mixed = (score.softmax(-1) @ v).transpose(-2, -3).flatten(-2)
        return self.linear(f"{name}.multi_head_combine", mixed)

    def encode(self) -> Tensor:
        """(N, D) embeddings of the nodes."""
        cvrp = self.p.problem == "cvrp"
        if cvrp:
            customers = torch.cat([self.nodes[1:], self.demand[1:, None]], dim=1)
            depot = self.linear("encoder.embedding_depot", self.nodes[:1])
            x = torch.cat([depot, self.linear("encoder.embedding_node", customers)])
        else:
            x = self.linear("encoder.embedding", self.nodes)
        for i in range(self.p.layers):
            layer = f"encoder.layers.{i}"
            q, k, v = (self.linear(f"{layer}.{part}", x) for part in ("Wq", "Wk", "Wv"))
            first, second = norm_names(self.p.problem)
            x = self.norm(f"{layer}.{first}", x + self.attend(layer, q, k, v, self.p.heads, None))
            forward = f"{layer}.{'feed_forward' if cvrp else 'feedForward'}"
            hidden = self.linear(f"{forward}.W1", x).relu()
            x = self.norm(f"{layer}.{second}", x + self.linear(f"{forward}.W2", hidden))
        return x

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Instance normalisation over the nodes."""
        return F.instance_norm(x.T[None], weight=self.w[f"{name}.weight"], bias=self.w[f"{name}.bias"])[0].T

    def probabilities(self, at: Partial) -> Tensor:
        """(M, N) of the next node."""
        p, here = self.p, self.embedded[at.current]
        if p.problem == "cvrp":
            query = self.linear("decoder.Wq_last", torch.cat([here, at.load[:, None]], dim=1))
        else:
            query = self.linear("decoder.Wq_first", self.embedded[at.first]) + self.linear("decoder.Wq_last", here)
        k, v = self.linear("decoder.Wk", self.embedded), self.linear("decoder.Wv", self.embedded)
        score = self.attend("decoder", query, k, v, p.heads, at.open) @ self.embedded.T / math.sqrt(p.width)
        node, inside = self.nearest(at)
        rho = self.distance[at.current[:, None], node] * inside
        if p.penalty:
            # TSP: divided by the largest + 1e-6. CVRP: by the largest; the depot has no penalty.
            largest = rho.amax(1, keepdim=True)
            share = rho / (largest + 1e-6) if p.problem == "tsp" else rho / largest.where(largest > 0, 1)
            score = score + torch.full_like(score, p.xi).scatter(1, node, -share)
            if p.problem == "cvrp":
                score[:, 0] -= p.xi
        if f"{local_name(p.problem)}.cur_token_emb" in self.w:
            score = score + self.local(at, node, inside, rho)
        return (p.clip * score.tanh()).masked_fill(~at.open, -INF).softmax(1)

    def nearest(self, at: Partial) -> tuple[Tensor, Tensor]:
        """(M, K) the nearest open customers (CVRP) or nodes, nearest first, and which of them are no padding."""
        lowest = int(self.p.problem == "cvrp")
        is_open = at.open[:, lowest:]
        key = self.distance[at.current, lowest:].float().masked_fill(~is_open, INF)
        node = key.argsort(dim=1, stable=True)[:, : self.p.neighbours]
        return node + lowest, is_open.gather(1, node)

    def local(self, at: Partial, node: Tensor, inside: Tensor, rho: Tensor) -> Tensor:
        """(M, N) u_local: 0 for nodes outside the neighbourhood."""
        p, name = self.p, local_name(self.p.problem)
        largest = rho.amax(1, keepdim=True)
        offset = self.nodes[node] - self.nodes[at.current][:, None]
        x = [rho / (largest + 1e-6), torch.atan2(offset[..., 1], offset[..., 0])]
        if p.euclidean:
            x = [offset[..., 0] / (largest + 1e-6), offset[..., 1] / (largest + 1e-6)]
        if p.problem == "cvrp":
            x.append(self.demand[node] / at.load[:, None].clamp(min=1e-9))
        features, allowed = torch.stack(x, dim=2) * inside[:, :, None], inside
        if p.problem == "cvrp":  # the depot comes first, with features of 0
            features = F.pad(features, (0, 0, 1, 0))
            node, allowed = F.pad(node, (1, 0)), torch.cat([at.open[:, :1], inside], dim=1)
        token = self.linear(f"{name}.init_emb", features)
        if p.positional:
            token = token + self.position(token.shape[1])
        query = self.linear(f"{name}.Wq", self.w[f"{name}.cur_token_emb"]).expand(len(token), 1, -1)
        k, v = self.linear(f"{name}.Wk", token), self.linear(f"{name}.Wv", token)
        mixed = self.attend(name, query, k, v, p.local_heads, allowed[:, None, None])
        score = (mixed @ token.transpose(1, 2)).squeeze(1) / math.sqrt(p.local_width)
        return torch.zeros(at.open.shape).double().scatter(1, node, score * allowed)

    def position(self, ranks: int) -> Tensor:
        """(ranks, D) sines, then cosines, of time scales from 1 to 10,000."""
        scales = 10_000.0 ** (torch.arange(self.p.local_width // 2).double() / (self.p.local_width // 2 - 1))
        angle = torch.arange(ranks).double()[:, None] / scales
        return torch.cat([angle.sin(), angle.cos()], dim=1)

    def greedy(self, starts: np.ndarray) -> tuple[Tensor, Tensor]:
        """(M, T) actions from the starts, and (M, T - 1, N) the probabilities from which each later one was chosen."""
        action = torch.from_numpy(starts)
        rows, n = torch.arange(len(action)), len(self.nodes)
        cvrp = self.p.problem == "cvrp"
        visited, load = torch.zeros(len(action), n, dtype=torch.bool), torch.ones(len(action)).double()
        actions, probabilities = [action], list[Tensor]()
        while True:
            visited[rows, action] = True
            load = load - self.demand[action]
            is_open = ~visited
            if cvrp:  # the depot is open unless the vehicle is there; it refills it
                load = torch.where(action == 0, 1.0, load)
                visited[:, 0] = action == 0
                is_open = ~visited & ~(load[:, None] + 1e-6 < self.demand)
                done = visited.all(1)
                is_open[done, 0] = True
            if (done if cvrp else visited.all(1)).all():
                return torch.stack(actions, dim=1), torch.stack(probabilities, dim=1)
            p = self.probabilities(Partial(actions[0], action, is_open, load))
            action = p.argmax(1)
            actions.append(action)
            probabilities.append(p)
