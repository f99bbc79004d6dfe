"""CPU time of the encoder without torch against torch's, on one thread, for one instance under the 8 symmetries.

    python benchmarks/encode.py [--sizes 100 1000] [--repeat 15]

Best of --repeat runs, in which the two take turns. Torch computes linear layers by oneDNN if that is faster than its
default, which on some processors is half as fast.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from decode import make_tasks
from torch.overrides import TorchFunctionMode

from elgo.decode.blas import one_blas_thread
from elgo.decode.encoder import encode
from elgo.model.checkpoint import load_model, load_weights
from elgo.model.env import make_batch
from elgo.problem.task import PROBLEMS


class OneDnnProducts(TorchFunctionMode):
    """A context in which linear layers are computed by oneDNN."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            return torch.ops.mkldnn._linear_pointwise(*args, "none", [], "")
        return func(*args, **(kwargs or {}))


def cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    contexts = [nullcontext(), OneDnnProducts()] if hasattr(torch.ops.mkldnn, "_linear_pointwise") else [nullcontext()]
    print("problem      N   torch ms    ours ms   ours / torch")
    for problem in PROBLEMS:
        policy, weights = load_model("elg", problem), load_weights("elg", problem)
        for size in options.sizes:
            tasks, _ = make_tasks(problem, size)
            best = [float("inf")] * 2
            for _ in range(options.repeat):
                with torch.inference_mode():
                    for context in contexts:
                        with context:
                            best[0] = min(best[0], cpu_seconds(lambda: policy.encode(make_batch(tasks))))  # noqa: B023
                with one_blas_thread():
                    best[1] = min(best[1], cpu_seconds(lambda: [encode(weights, task) for task in tasks]))  # noqa: B023
            print(f"{problem:7} {size:6} {1e3 * best[0]:10.1f} {1e3 * best[1]:10.1f} {best[1] / best[0]:14.2f}")


if __name__ == "__main__":
    main()
