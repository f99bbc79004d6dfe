"""What the paper's tables need measured: benchmarks of the package's models, each in a folder that a table shares.

ELG and the search with ELG's time share a folder, POMO and each ablation have one of their own: weights that come later
need no measurement again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from elgo.bench.command import OnProgress, bench
from elgo.bench.methods import Options, parse_methods
from elgo.bench.sets import PART, PART_200, Selection, load_set, synthetic_names
from elgo.model.checkpoint import SHIPPED
from elgo.problem.task import ProblemName

POMO = "pomo"
DEFAULTS = Options()


@dataclass(frozen=True)
class Run:
    """Instances that methods are measured on, and how many starts ELG and POMO have: all of them, at most `starts`."""

    set: str
    problem: ProblemName
    selection: Selection
    starts: int = 1000
    only_elg: bool = False  # a whole set of 10,000, on which nothing else is measured

    @property
    def methods(self) -> list[str]:
        """ELG, one greedy rollout of it, and classical methods, the search with the time that ELG took."""
        elg = f"elg:{self.starts}x8"
        if self.only_elg:
            return [elg]
        classical = [f"fast_tsp@{elg}"] if self.problem == "tsp" else ["savings", f"elgo@{elg}"]
        return [elg, "elg:single", *classical]


def _synthetic(problem: ProblemName, size: int, limit: int | None) -> Run:
    return Run("synthetic", problem, Selection(problem, limit=limit, groups=tuple(synthetic_names(problem, size))))


RUNS = {
    "tsplib": Run("tsplib", "tsp", Selection("tsp")),
    "cvrplib-x": Run("cvrplib-x", "cvrp", Selection("cvrp")),
    "cvrplib-xxl": Run("cvrplib-xxl", "cvrp", Selection("cvrp"), starts=100),
    "synthetic-tsp-100": _synthetic("tsp", 100, None),
    "synthetic-tsp-200": _synthetic("tsp", 200, PART_200),
    "synthetic-cvrp-100": _synthetic("cvrp", 100, None),
    "synthetic-cvrp-200": _synthetic("cvrp", 200, PART_200),
    "uniform-tsp": Run("uniform", "tsp", Selection("tsp"), only_elg=True),
    "uniform-cvrp": Run("uniform", "cvrp", Selection("cvrp"), only_elg=True),
    "uniform-tsp-part": Run("uniform", "tsp", Selection("tsp", limit=PART)),
    "uniform-cvrp-part": Run("uniform", "cvrp", Selection("cvrp", limit=PART)),
}

Progress = Callable[[str], AbstractContextManager[OnProgress]]  # name of a run -> what shows its progress


@dataclass(frozen=True)
class Study:
    """Where measurements are and how they are made. A limit takes only the first instances of each group."""

    folder: Path
    data: Path | None = None
    options: Options = DEFAULTS
    limit: int | None = None
    ablations: Path = Path("bench/ablations/training")  # folder with the weights of ablations
    progress: Progress | None = None

    def measure(self, name: str, suffix: str = "", methods: list[str] | None = None) -> Path:
        """Run the benchmark of a name, or continue it; return its folder, which is FOLDER/NAME and the suffix."""
        run = RUNS[name]
        limits = [limit for limit in (run.selection.limit, self.limit) if limit]
        selection = replace(run.selection, limit=min(limits) if limits else None)
        found = load_set(run.set, self.data, selection)
        chosen = parse_methods(",".join(methods or run.methods))
        target = self.folder / f"{name}{suffix}"
        if self.progress is None:
            bench(found, chosen, self.options, target)
        else:
            with self.progress(target.name) as show:
                bench(found, chosen, self.options, target, show)
        return target

    def measure_pomo(self, name: str) -> Path | None:
        """The same for POMO; None if its weights are not in the package."""
        run = RUNS[name]
        if run.only_elg or not (SHIPPED / f"{POMO}-{run.problem}.safetensors").is_file():
            return None
        return self.measure(name, f"-{POMO}", [f"{POMO}:{run.starts}x8", f"{POMO}:single"])

    def measure_ablation(self, name: str, variant: str) -> Path | None:
        """The same for an ablation; None if its weights are not there."""
        file = self.ablation_weights(variant, RUNS[name].problem)
        if file is None:
            return None
        protocol = "8x1" if variant == "ablation-local-only" else "100x8"  # which only torch decodes, slowly
        return self.measure(name, f"-{variant}", [f"{variant}={file}:{protocol}"])

    def ablation_weights(self, variant: str, problem: ProblemName) -> Path | None:
        """Return the weights of an ablation, by the name of its config: of a run's folder, or NAME.safetensors."""
        stem = variant if problem == "tsp" else f"{variant.removesuffix('-tsp')}-cvrp"
        run = self.ablations / stem
        files = (run / "best.safetensors", run / "last.safetensors", self.ablations / f"{stem}.safetensors")
        return next((file for file in files if file.is_file()), None)
