"""The ELG policy: a global policy that sees the whole instance, a local one that sees the K nearest valid nodes.

The whole network is here with its config. Shapes: B tasks, M rollouts, N nodes, K neighbours, H heads, D width,
E local width. Equation names are the paper's; what it leaves open is decided in docs/design.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elgo.kin import STRONG, Kin, kin_of
from elgo.model.env import PROBLEMS, Batch, ProblemName, State, gather_nodes
from elgo.model.neighbours import Neighbourhood, nearest, positional_encoding
from elgo.window import WindowPolicy, show_kin, show_plans

NEIGHBOURS: dict[ProblemName, int] = {"tsp": 30, "cvrp": 40}


@dataclass(frozen=True)
class PolicyConfig:
    """Everything that decides the network; the paper's ablations are settings of these fields."""

    problem: ProblemName
    neighbours: int = 0  # K; 0 takes the paper's value for the problem
    # global policy (POMO)
    global_policy: bool = True
    width: int = 128
    heads: int = 8
    layers: int = 6
    hidden: int = 512
    distance_bias: bool = False  # beyond the paper: encoder heads attend to near nodes, each at its own scale
    log_temperature: bool = False  # beyond the paper: attention sharpens with log N, as many more nodes compete
    decoder_block: bool = False  # beyond the paper: current node and load join the glimpse, then a feed-forward block
    # ensemble
    penalty: bool = True  # the normalised distance penalty
    xi: float = 1.0  # the penalty outside of the neighbourhood
    clip: float = 50.0  # C
    # local policy
    local_policy: bool = True  # switched off in the first stage of training; its parameters always exist
    local: Literal["light", "window"] = "light"  # the paper's, or beyond it the transformer of elgo.window
    local_width: int = 32
    local_heads: int = 4
    local_layers: int = 0  # self-attention layers over the neighbours (the paper's local-only ablation has 3)
    kin: bool = False  # beyond the paper: the window also sees which nodes classical methods would join (elgo.kin)
    positional: bool = True
    coordinates: Literal["polar", "euclidean"] = "polar"

    def __post_init__(self) -> None:
        if self.problem not in PROBLEMS:
            raise ValueError(f"problem is {self.problem!r}, must be one of {', '.join(PROBLEMS)}")
        if self.neighbours == 0:
            object.__setattr__(self, "neighbours", NEIGHBOURS[self.problem])
        for field in ("neighbours", "width", "heads", "layers", "hidden", "local_width", "local_heads"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}, must be at least 1")
        if self.width % self.heads or self.local_width % self.local_heads:
            raise ValueError("width must be a multiple of heads, and local_width of local_heads")
        if self.local not in ("light", "window"):
            raise ValueError(f"local is {self.local!r}, must be light or window")
        if self.local == "window" and self.local_layers < 1:
            raise ValueError(f"local_layers is {self.local_layers}, but a window needs at least 1")
        if self.kin and self.local != "window":
            raise ValueError("kin is on, but only a window sees it: local must be window")
        if self.coordinates not in ("polar", "euclidean"):
            raise ValueError(f"coordinates is {self.coordinates!r}, must be polar or euclidean")
        if self.local_layers < 0:
            raise ValueError(f"local_layers is {self.local_layers}, must not be negative")
        if not (1 <= self.xi < math.inf and 0 < self.clip < math.inf):
            raise ValueError(f"xi is {self.xi} and clip is {self.clip}: xi must be at least 1, clip positive")
        if not (self.global_policy or self.local_policy):
            raise ValueError("global_policy and local_policy are both off")


class Cache(NamedTuple):
    """What encode() leaves for the steps: all that can be computed per node instead of per state."""

    batch: Batch
    query_last: Tensor  # (B, N, D) what a node adds to the query as the current one
    query_first: Tensor | None  # (B, N, D) TSP: what it adds as the first one
    keys: Tensor  # (B, H, N, D/H)
    values: Tensor  # (B, H, N, D/H)
    readout: Tensor  # (B, N, D) and
    offset: Tensor  # (B, N): u_global = heads of the glimpse . readout + offset
    kin: Tensor | None = None  # (B, N, N) see elgo.kin
    sparse: tuple[Kin, ...] = ()  # the same of each task, and its plans


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, N, D) -> (B, H, N, D/H)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def self_attention(
    x: Tensor, qkv: nn.Linear, combine: nn.Linear, heads: int, mask: Tensor | None, sharpness: Tensor | None = None
) -> Tensor:
    """Multi-head attention of x (B, N, D) to itself; mask (B, 1 or H, 1 or N, N) is boolean or added to the scores.

    sharpness (B,) multiplies the scores.
    """
    q, k, v = (split_heads(part, heads) for part in qkv(x).chunk(3, dim=-1))
    if sharpness is not None:
        q = q * sharpness[:, None, None, None]
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return combine(attended.transpose(1, 2).flatten(2))


def distance_bias(batch: Batch, heads: int) -> Tensor:
    """(B, H, N, N): minus the distance in units of the mean spacing 1 / sqrt(N), each head with its own slope.

    The first two heads have slope 0 and see everything; the others halve from 2 on, as in ALiBi.
    """
    slope = torch.tensor([0.0, 0.0, *(2.0**-h for h in range(-1, heads - 3))], device=batch.coords.device)
    distance = torch.cdist(batch.coords, batch.coords).float() * batch.size[:, None, None].sqrt()
    return (-slope[:heads, None, None] * distance[:, None]).masked_fill(~batch.real[:, None, None], -torch.inf)


def close(valid: Tensor) -> Tensor:
    """0 where True, -inf where False. Adding that is twice as fast as a boolean mask of attention or scores."""
    return torch.zeros(valid.shape, device=valid.device).masked_fill_(~valid, -torch.inf)


class InstanceNorm(nn.Module):
    """Normalises each feature over the real nodes of its own instance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """x (B, N, D), real (B, N) or None when nothing is padded."""
        if real is None:
            mean = x.mean(1, keepdim=True)
            variance = (x - mean).square().mean(1, keepdim=True)  # faster than torch.var_mean
        else:
            weight = real[:, :, None] / real.sum(1)[:, None, None]
            mean = (x * weight).sum(1, keepdim=True)
            variance = ((x - mean).square() * weight).sum(1, keepdim=True)
        scale = self.weight * torch.rsqrt(variance + 1e-5)
        return x * scale + (self.bias - mean * scale)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward block, each with a residual and instance normalisation."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.combine = nn.Linear(width, width)
        self.norm1 = InstanceNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm2 = InstanceNorm(width)

    def forward(
        self, x: Tensor, real: Tensor | None = None, mask: Tensor | None = None, sharpness: Tensor | None = None
    ) -> Tensor:
        """x (B, N, D), real (B, N) or None when nothing is padded; mask of the attention, by default that padding."""
        if mask is None and real is not None:
            mask = real[:, None, None]
        x = self.norm1(x + self_attention(x, self.qkv, self.combine, self.heads, mask, sharpness), real)
        return self.norm2(x + self.down(F.relu(self.up(x))), real)


class GlobalPolicy(nn.Module):
    """POMO: an encoder over all nodes, and a decoder whose query is the context of the partial solution."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        problem = PROBLEMS[config.problem]
        width = config.width
        self.problem, self.heads, self.distance_bias = problem, config.heads, config.distance_bias
        self.log_temperature = config.log_temperature
        self.embed = nn.Linear(3 if problem.has_depot else 2, width)
        self.embed_depot = nn.Linear(2, width) if problem.has_depot else None
        self.layers = nn.ModuleList(EncoderLayer(width, config.heads, config.hidden) for _ in range(config.layers))
        self.query_last = nn.Linear(width, width, bias=False)
        self.query_first = None if problem.has_depot else nn.Linear(width, width, bias=False)
        self.query_load = nn.Linear(1, width, bias=False) if problem.has_depot else None
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)
        self.block = DecoderBlock(width, config.hidden, problem.has_depot) if config.decoder_block else None

    def encode(self, batch: Batch) -> Cache:
        nodes = self.embeddings(batch)
        scale = 1 / math.sqrt(nodes.shape[2])
        keys = split_heads(self.key(nodes), self.heads)
        sharpness = self.sharpness(batch)
        # (W g + b).h_n = g.(W^T h_n) + b.h_n: folding W into the N nodes saves a product for every state.
        readout, offset = nodes @ self.combine.weight * scale, nodes @ self.combine.bias * scale
        if self.block is not None:  # which comes between W and the nodes
            readout, offset = nodes * scale, torch.zeros_like(offset)
        return Cache(
            batch,
            query_last=self.query_last(nodes),
            query_first=None if self.query_first is None else self.query_first(nodes),
            keys=keys if sharpness is None else keys * sharpness[:, None, None, None],
            values=split_heads(self.value(nodes), self.heads),
            readout=readout,
            offset=offset,
        )

    def sharpness(self, batch: Batch) -> Tensor | None:
        """(B,) log N / log 100: attention over more nodes than the usual 100 is sharper, and softer over fewer."""
        return batch.size.float().log() / math.log(100) if self.log_temperature else None

    def embeddings(self, batch: Batch) -> Tensor:
        """(B, N, D): linear embeddings, the depot's from a layer of its own, and the encoder's layers."""
        features = self.problem.node_features(batch)
        nodes = self.embed(features)
        if self.embed_depot is not None:
            nodes = torch.cat([self.embed_depot(features[:, :1, :2]), nodes[:, 1:]], dim=1)
        real = None if bool((batch.size == batch.coords.shape[1]).all()) else batch.real
        mask = distance_bias(batch, self.heads) if self.distance_bias else None
        sharpness = self.sharpness(batch)
        for layer in self.layers:
            nodes = layer(nodes, real, mask, sharpness)
        return nodes

    def scores(self, cache: Cache, state: State, closed: Tensor) -> Tensor:
        """u_global = q.k / sqrt(d) as (B, M, N), after one attention to nodes that are not closed (the glimpse)."""
        query = gather_nodes(cache.query_last, state.current)
        if cache.query_first is not None:
            query = query + gather_nodes(cache.query_first, state.first)
        if self.query_load is not None:
            query = query + self.query_load(self.problem.load_share(cache.batch, state)[..., None])
        query = split_heads(query, self.heads)
        glimpse = F.scaled_dot_product_attention(query, cache.keys, cache.values, attn_mask=closed[:, None])
        glimpse = glimpse.transpose(1, 2).flatten(2)  # (B, M, D)
        if self.block is not None:
            here, load = gather_nodes(cache.readout, state.current), self.problem.load_share(cache.batch, state)
            glimpse = self.block(self.combine(glimpse), here, load)
        return torch.baddbmm(cache.offset[:, None], glimpse, cache.readout.transpose(1, 2))


class DecoderBlock(nn.Module):
    """The current node's embedding and the load join the glimpse; a feed-forward block with a residual follows."""

    def __init__(self, width: int, hidden: int, has_load: bool) -> None:
        super().__init__()
        self.here = nn.Linear(width, width, bias=False)
        self.load = nn.Linear(1, width, bias=False) if has_load else None
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, glimpse: Tensor, here: Tensor, load: Tensor) -> Tensor:
        """glimpse and here (B, M, D), load (B, M)."""
        x = glimpse + self.here(here)
        if self.load is not None:
            x = x + self.load(load[..., None])
        return x + self.down(F.relu(self.up(x)))


class LocalLayer(nn.Module):
    """Self-attention over the neighbours of one state and a feed-forward block, with residuals and layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.combine = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        """x (S, T, E), present (S, T)."""
        x = self.norm1(x + self_attention(x, self.qkv, self.combine, self.heads, present[:, None, None]))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class LocalPolicy(nn.Module):
    """A learned context vector attends to the neighbours in polar coordinates and scores them.

    With a depot, token 0 stands for the depot and the neighbours are tokens 1..K; without, they are tokens 0..K-1.
    """

    pe: Tensor

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        self.has_depot = PROBLEMS[config.problem].has_depot
        width = config.local_width
        self.embed = nn.Linear(3 if self.has_depot else 2, width)
        if self.has_depot:  # a token without distance or angle: those of a far depot would grow with N
            self.depot = nn.Parameter(torch.empty(width).uniform_(-1, 1))
        self.context = nn.Parameter(torch.empty(width).uniform_(-1, 1))  # h_c
        self.layers = nn.ModuleList(LocalLayer(width, config.local_heads) for _ in range(config.local_layers))
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)
        encoding = positional_encoding(config.neighbours + self.has_depot, width)
        self.register_buffer("pe", encoding if config.positional else torch.zeros_like(encoding), persistent=False)

    def tokens(self, cache: Cache, state: State, near: Neighbourhood, present: Tensor) -> Tokens:
        """h_i = W x_i + b + PE(rank i), K or 1 + K per state; absent neighbours have x_i = 0."""
        x = self.features(cache.batch, state, near)
        rank = self.pe[: x.shape[3]] + self.embed.bias
        if self.has_depot:
            rank = torch.cat([self.pe[:1] + self.depot, rank[1:]])
        if not self.layers:
            return LinearTokens(x, self.embed.weight, rank)
        h = (torch.einsum("fbmt,ef->bmte", x, self.embed.weight) + rank).flatten(0, 1)
        for layer in self.layers:
            h = layer(h, present.flatten(0, 1))
        return DenseTokens(h.unflatten(0, x.shape[1:3]))

    def features(self, batch: Batch, state: State, near: Neighbourhood) -> Tensor:
        """x_i = (rho_i / max rho, theta_i[, d_i / Q_remaining]) as (2 or 3, B, M, K or 1 + K); 0 for the depot."""
        if self.config.coordinates == "polar":
            planes = [near.rho / near.radius, near.theta * near.present]
        else:
            planes = [x / near.radius * near.present for x in offsets(batch, state.current, near.node)]
        if batch.demand is not None:
            demand = batch.demand.float().gather(1, near.node.flatten(1)).view_as(near.rho)
            planes.append(demand * near.present / state.load.clamp(min=1).float()[:, :, None])
        return torch.stack([F.pad(plane, (1, 0)) if self.has_depot else plane for plane in planes])

    def scores(self, cache: Cache, state: State, near: Neighbourhood, valid: Tensor) -> Tensor:
        """u_local = h~_c . h_i / sqrt(d_e) of each token, (B, M, K or 1 + K); finite also where absent."""
        present = torch.cat([valid[:, :, :1], near.present], dim=2) if self.has_depot else near.present
        tokens = self.tokens(cache, state, near, present)
        heads, width = self.config.local_heads, self.config.local_width
        # The query is the same for every state, so q.k_i = (Wk^T q).h_i, and sum_i w_i v_i = Wv (sum_i w_i h_i).
        query = self.query(self.context).view(heads, 1, -1)
        folded = (query @ self.key.weight.view(heads, -1, width)).squeeze(1) / math.sqrt(width // heads)  # (H, E)
        weight = tokens.project(folded).masked_fill(~present[:, :, None], -torch.inf).softmax(dim=-1)  # (B, M, H, K)
        value = self.combine.weight.view(width, heads, -1).transpose(0, 1) @ self.value.weight.view(heads, -1, width)
        summary = tokens.mix(weight, value.transpose(1, 2)) + self.combine.bias  # (B, M, E)
        return tokens.dot(summary) / math.sqrt(width)


class LinearTokens(NamedTuple):
    """Tokens h_i = W x_i + r_i that are never built: few features x and shared rank vectors r give all their sums.

    The features are planes, since products over so short an axis would take longer than all the rest.
    """

    x: Tensor  # (F, B, M, T)
    weight: Tensor  # (E, F)
    rank: Tensor  # (T, E)

    def project(self, vectors: Tensor) -> Tensor:
        """h_i . v for shared vectors (H, E), as (B, M, H, T)."""
        out = vectors @ self.rank.T  # (H, T)
        for x, slope in zip(self.x, (vectors @ self.weight).T, strict=True):
            out = torch.addcmul(out, x[:, :, None], slope[:, None])
        return out

    def mix(self, weight: Tensor, maps: Tensor) -> Tensor:
        """sum_h (sum_i w_hi h_i) A_h for weights (B, M, H, T) and maps A (H, E, O), as (B, M, O)."""
        out = weight.flatten(2) @ (self.rank @ maps).flatten(0, 1)
        for x, row in zip(self.x, (self.weight.T @ maps).unbind(1), strict=True):
            out = out + (weight * x[:, :, None]).sum(-1) @ row
        return out

    def dot(self, vector: Tensor) -> Tensor:
        """h_i . v for one vector per state (B, M, E), as (B, M, T)."""
        out = vector @ self.rank.T
        for x, slope in zip(self.x, (vector @ self.weight).unbind(-1), strict=True):
            out = torch.addcmul(out, x, slope[..., None])
        return out


class DenseTokens(NamedTuple):
    """Tokens as they come out of self-attention, with the same sums."""

    h: Tensor  # (B, M, T, E)

    def project(self, vectors: Tensor) -> Tensor:
        return (self.h @ vectors.T).transpose(2, 3)

    def mix(self, weight: Tensor, maps: Tensor) -> Tensor:
        return (weight @ self.h).flatten(2) @ maps.flatten(0, 1)

    def dot(self, vector: Tensor) -> Tensor:
        return (self.h @ vector[..., None]).squeeze(-1)


Tokens = LinearTokens | DenseTokens


def offsets(batch: Batch, current: Tensor, node: Tensor) -> list[Tensor]:
    """(B, M, K) float32 in x and in y from the current nodes (B, M) to others (B, M, K)."""
    there = gather_nodes(batch.coords, node.flatten(1)).view(*node.shape, 2)
    return list((there - gather_nodes(batch.coords, current)[:, :, None]).float().unbind(-1))


class Policy(nn.Module):
    """The ensemble: u_i = C tanh(u_global_i - penalty_i + u_local_i) for valid nodes, -inf otherwise."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        self.problem = PROBLEMS[config.problem]
        self.global_ = GlobalPolicy(config) if config.global_policy else None
        self.local = WindowPolicy(config) if config.local == "window" else LocalPolicy(config)

    def encode(self, batch: Batch) -> Cache:
        """All that does not change from step to step. Gradients flow through it."""
        if self.global_ is None:
            empty = torch.empty(0, device=batch.coords.device)
            cache = Cache(batch, empty, None, empty, empty, empty, empty)
        else:
            cache = self.global_.encode(batch)
        if self.config.kin:
            kin, sparse = kin_of(batch)
            cache = cache._replace(kin=kin, sparse=sparse)
        return cache

    def scores(self, cache: Cache, state: State) -> tuple[Tensor, Tensor]:
        """(u~_global + u_local, closed), both (B, M, N): closed is 0 for nodes that may come next and -inf for others.

        The scores of those others are finite and meaningless. A window alone closes all nodes outside of it.
        Greedy decoding compares these: tanh keeps their order but rounds large ones into ties.
        """
        batch, config = cache.batch, self.config
        valid = self.problem.valid(batch, state)
        candidates = valid
        if self.problem.has_depot:  # the depot is a token of its own, never one of the K
            candidates = torch.cat([torch.zeros_like(valid[:, :, :1]), valid[:, :, 1:]], dim=2)
        near = nearest(batch, state.current, candidates, config.neighbours)
        if cache.kin is not None and self.problem.has_depot:
            near = show_plans(near, batch, cache.sparse, state, candidates)
        elif cache.kin is not None:
            beside = gather_nodes(cache.kin, state.current) > STRONG
            near = show_kin(near, batch, beside, state.current, candidates)
        closed = close(valid)
        u = torch.zeros_like(closed)
        if self.global_ is not None:
            u = self.global_.scores(cache, state, closed).float()  # also under autocast
        if config.penalty:
            u = u - config.xi
        node, score = self._near_scores(cache, state, near, valid)
        if self.global_ is None and config.local == "window":
            closed = close(valid & torch.zeros_like(valid).scatter(2, node, True))
        return u.scatter_add(2, node, score), closed

    def _near_scores(self, cache: Cache, state: State, near: Neighbourhood, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes (B, M, K or 1 + K) and what they score beyond the others: u_local, and a penalty below xi.

        The penalty is rho_i / max rho in N_K, xi outside and 0 for the depot token.
        """
        node, present, share = near.node, near.present, (near.rho / near.radius).clamp(max=self.config.xi)
        if self.problem.has_depot:
            node, share = F.pad(node, (1, 0)), F.pad(share, (1, 0))
            present = F.pad(present, (1, 0), value=True)
        score = self.config.xi - share if self.config.penalty else torch.zeros_like(share)
        if self.config.local_policy:
            score = score + self.local.scores(cache, state, near, valid)
        return node, score * present

    def logits(self, cache: Cache, state: State) -> Tensor:
        """(B, M, N): C tanh(u), -inf where a node may not come next."""
        u, closed = self.scores(cache, state)
        return torch.add(closed, u.tanh(), alpha=self.config.clip)

    def log_prob(
        self, batch: Batch, actions: Tensor, steps: Tensor | None = None, doubtful: Tensor | None = None
    ) -> Tensor:
        """(B, M, S) log-probabilities of actions at `steps` (S,) of complete sequences (B, M, T), in one parallel pass.

        By default at 1..T-1: the first action is the given start. Equal to stepping through `logits`; padding moves
        have log-probability 0. For one task, `doubtful` (1, M, S) may say where it is worth computing: elsewhere the
        policy is so sure of its move that the log-probability is taken as 0.
        """
        if steps is None:
            steps = torch.arange(1, actions.shape[2], device=actions.device)
        state = self.problem.along(batch, actions, steps)
        chosen = actions[:, :, steps].flatten(1, 2)
        cache = self.encode(batch)
        if doubtful is None:
            return self._log_p(cache, state, chosen).view(*actions.shape[:2], -1)
        worth = doubtful[0].flatten()
        if not worth.any():
            return torch.zeros(*actions.shape[:2], len(steps), device=chosen.device)
        log_p = self._log_p(cache, State(*(part[:, worth] for part in state)), chosen[:, worth])
        return torch.zeros(chosen.shape, device=chosen.device).masked_scatter(worth, log_p).view(*actions.shape[:2], -1)

    def _log_p(self, cache: Cache, state: State, chosen: Tensor) -> Tensor:
        """(B, M) log-probability of moving to `chosen` (B, M)."""
        from elgo.train import compiled_log_prob as fast_train

        if fast_train.fits(self, cache):
            return fast_train.log_prob(self, cache, state, chosen)
        free = torch.ones_like(chosen[0], dtype=torch.bool)
        if len(cache.batch.size) == 1:  # of one task, states without a choice can be left out: their log p is 0
            free = self.problem.valid(cache.batch, state)[0].sum(-1) > 1
            state = State(*(part[:, free] for part in state))
            if not free.any():
                return torch.zeros(chosen.shape, device=chosen.device)
        log_p = self.logits(cache, state).log_softmax(-1).gather(2, chosen[:, free, None])
        return torch.zeros(chosen.shape, device=chosen.device).masked_scatter(free.expand_as(chosen), log_p)


def with_local(policy: Policy, on: bool) -> Policy:
    """The same parameters with the local policy switched on or off: how a training stage begins."""
    other = Policy(replace(policy.config, local_policy=on))
    other.load_state_dict(policy.state_dict())
    return other
