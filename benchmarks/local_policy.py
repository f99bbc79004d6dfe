"""Does the local policy help out of distribution, as the paper says? ELG against its POMO twin, trained on N = 20.

    python benchmarks/local_policy.py ELG.safetensors,POMO.safetensors ... [--tsplib DATA] [--plot FILE]

One argument per seed: the weights of paper-tsp-20 first, then those it is compared with, trained with the same seed;
the same methods in the same order for each. Test sets: uniform N = 20, 50, 100, 200, four distributions at N = 100, and
the instances of TSPLIB with at most 200 nodes. Greedy, one rollout from every node, 8 symmetries; gaps to tours of
fast_tsp (TSPLIB: to the optimum). Gaps are averaged over the seeds, then instances are compared: a difference is the
mean of gap(other) - gap(ELG), p that of a two-sided Wilcoxon signed-rank test.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from elgo.bench.compare import signed_rank
from elgo.bench.sets import load_set
from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import augmentations, costs
from elgo.model.checkpoint import load_policy
from elgo.model.ensemble import Policy
from elgo.problem.augment import SYMMETRIES
from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance
from elgo.train.labelling import label_tsp

SEED = 2024
SETS = {  # title: distribution, N, instances
    "uniform 20": ("uniform", 20, 1000),
    "uniform 50": ("uniform", 50, 500),
    "uniform 100": ("uniform", 100, 200),
    "uniform 200": ("uniform", 200, 100),
    "cluster 100": ("cluster", 100, 100),
    "mixture 100": ("mixture", 100, 100),
    "explosion 100": ("explosion", 100, 100),
    "rotation 100": ("rotation", 100, 100),
}
LABEL_SECONDS = 0.1  # of fast_tsp per 100 nodes

Reference = tuple[Instance, float]


def generated(title: str, fraction: float) -> list[Reference]:
    """Return the instances of a set, or the first part of them, with near-optimal costs."""
    distribution, size, count = SETS[title]
    rng = np.random.default_rng([SEED, *title.encode()])
    samples = [generate(rng, "tsp", size, distribution) for _ in range(max(2, round(fraction * count)))]
    return [(as_instance(x), label_tsp(x, LABEL_SECONDS * max(0.2, size / 100)).cost) for x in samples]


def tsplib(data: Path) -> list[Reference]:
    """Return the paper's instances of TSPLIB with at most 200 nodes, with their optima."""
    instances = [entry.instance for entry in load_set("tsplib", data).entries]
    return [(x, x.best_known) for x in instances if x.size <= 200 and x.best_known is not None]


def gaps(policy: Policy, references: Sequence[Reference], threads: int) -> NDArray[np.float64]:
    """Return the gap of each instance in percent: every start, 8 symmetries, greedy."""
    found = []
    for instance, best in references:
        tasks, starts = augmentations(instance, policy.config.normalisation, None, SYMMETRIES, 0)
        rollouts = decode(policy, tasks, starts, DecodeConfig(threads=threads))
        cost = min(costs(instance, one.actions).min() for one in rollouts)
        found.append(100 * (cost / best - 1))
    return np.array(found)


def plot(file: Path, methods: Sequence[str], results: dict[str, dict[str, NDArray[np.float64]]]) -> None:
    """Draw the mean gaps, seed by seed, against N and for each distribution."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    sizes = [title for title in results if title.startswith("uniform")]
    others = [title for title in results if title not in sizes]
    for number, method in enumerate(methods):
        colour = f"C{number}"
        at = [results[title][method] for title in sizes]
        x = [SETS[title][1] for title in sizes]
        left.plot(x, [one.mean() for one in at], "o-", color=colour, label=method)
        place = np.arange(len(others)) + 0.8 * (number - (len(methods) - 1) / 2) / len(methods)
        means = [results[title][method].mean(axis=1) for title in others]
        right.bar(place, [one.mean() for one in means], 0.75 / len(methods), color=colour, label=method)
        for axes, ticks, dots in ((left, x, [one.mean(axis=1) for one in at]), (right, place, means)):
            for tick, dot in zip(ticks, dots, strict=True):
                axes.plot([tick] * len(dot), dot, "_", color="black", markersize=7)
    left.set(xlabel="nodes (uniform)", ylabel="mean gap in %", xscale="log", ylim=(0, None))
    left.set_xticks([SETS[title][1] for title in sizes], [str(SETS[title][1]) for title in sizes])
    left.minorticks_off()
    right.set(ylim=(0, None), ylabel="mean gap in %")
    right.set_xticks(np.arange(len(others)), [title.replace(" ", "\n", 1) for title in others])
    left.legend(title="trained on N = 20", frameon=False)
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="+", metavar="ELG,OTHER[,...]")
    parser.add_argument(
        "--names", default="ELG,POMO", help="what the weights of a seed are called (default: %(default)s)"
    )
    parser.add_argument("--tsplib", type=Path, help="data folder with the set tsplib, as for elgo bench")
    parser.add_argument("--fraction", type=float, default=1.0, help="part of each generated set (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all gaps")
    parser.add_argument("--plot", type=Path, help="draw the picture")
    options = parser.parse_args()
    methods = options.names.split(",")
    policies = {
        name: [load_policy(Path(seed.split(",")[k])) for seed in options.seeds] for k, name in enumerate(methods)
    }
    titles = [*SETS, *(["TSPLIB <= 200"] if options.tsplib else [])]
    results: dict[str, dict[str, NDArray[np.float64]]] = {}  # (seeds, instances) of each set and method
    table = Table("set", "instances", *methods, *(f"{name} - {methods[0]}" for name in methods[1:]), "p")
    for title in titles:
        references = generated(title, options.fraction) if title in SETS else tsplib(options.tsplib)
        found = {name: np.stack([gaps(p, references, options.threads) for p in own]) for name, own in policies.items()}
        results[title] = found
        changes = [(found[name] - found[methods[0]]).mean(axis=0) for name in methods[1:]]
        means = [f"{x.mean():.2f} ({', '.join(f'{y:.2f}' for y in x.mean(axis=1))})" for x in found.values()]
        tests = ", ".join(f"{signed_rank(x):.1g}" for x in changes)
        table.add_row(title, str(len(references)), *means, *(f"{x.mean():+.2f}" for x in changes), tests)
        Console(stderr=True).print(f"{title}: done")
    Console(width=max(140, Console().width)).print(table)
    if options.json:
        values = {title: {name: x.tolist() for name, x in own.items()} for title, own in results.items()}
        options.json.write_text(json.dumps(values))
    if options.plot:
        plot(options.plot, methods, results)


if __name__ == "__main__":
    main()
