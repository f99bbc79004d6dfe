"""CPU time of the encoder without torch against torch's, on one thread, for one instance under the 8 symmetries.

    python benchmarks/encode.py [--sizes 100 1000] [--repeat 15]

Best of --repeat runs, in which the two take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from decode import blas_kernels, make_tasks

from elgo.decode.blas import one_blas_thread
from elgo.decode.encoder import encode
from elgo.model.checkpoint import load_model, load_weights
from elgo.model.env import make_batch
from elgo.problem.task import PROBLEMS


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
    print("problem      N   torch ms    ours ms   ours / torch")
    for problem in PROBLEMS:
        policy, weights = load_model("elg", problem), load_weights("elg", problem)
        for size in options.sizes:
            tasks, _ = make_tasks(problem, size)
            best = [float("inf")] * 2
            for _ in range(options.repeat):
                with torch.inference_mode():
                    best[0] = min(best[0], cpu_seconds(lambda: policy.encode(make_batch(tasks))))  # noqa: B023
                with one_blas_thread():
                    best[1] = min(best[1], cpu_seconds(lambda: [encode(weights, task) for task in tasks]))  # noqa: B023
            print(f"{problem:7} {size:6} {1e3 * best[0]:10.1f} {1e3 * best[1]:10.1f} {best[1] / best[0]:14.2f}")
    print(blas_kernels())


if __name__ == "__main__":
    main()
