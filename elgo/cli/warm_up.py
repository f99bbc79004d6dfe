"""`elgo warm-up`: compile the kernels ahead."""

import time


def warm_up() -> None:
    """Compile ahead what solving needs. The first solve does it otherwise, once per version and CPU."""
    from elgo.jit.cache import cache_folder
    from elgo.solve.solver import warm_up as load

    begin = time.perf_counter()
    load()
    print(f"ready after {time.perf_counter() - begin:.1f} s: {cache_folder()}")
