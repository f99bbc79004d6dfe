"""The BLAS that compiled kernels call, and its threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event, Lock, Thread

from threadpoolctl import ThreadpoolController


class _Limit:
    """Counts who needs BLAS on one thread: the first one sets the limit, the last one takes it back.

    A thread of its own holds the limit meanwhile: threadpoolctl lets only that thread take it back which has set it.
    """

    def __init__(self) -> None:
        self.lock, self.users, self.release = Lock(), 0, Event()
        self.holder = Thread()

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                self.release, ready = Event(), Event()
                self.holder = Thread(target=_hold, args=(_controller(), ready, self.release), daemon=True)
                self.holder.start()
                try:
                    ready.wait()
                except BaseException:  # Ctrl-C
                    self.release.set()
                    raise
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.release.set()
                self.holder.join()


def _hold(controller: ThreadpoolController, ready: Event, release: Event) -> None:
    try:
        with controller.limit(limits=1, user_api="blas"):
            ready.set()
            release.wait()
    finally:
        ready.set()


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread in the block: kernels call it from several threads of their own.

    The limit is one for the whole process. Blocks may overlap on several threads.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401  the BLAS that the kernels call: it must be loaded to be found

    return ThreadpoolController().select(user_api="blas")
