"""The data of the next step, made in a background thread while a GPU computes this one."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Prefetch(Generic[Key, Value]):
    """What `make` returns for each key. The value must follow from the key alone: a resumed run gets the same ones."""

    def __init__(self, make: Callable[[Key], Value], ahead: bool) -> None:
        """Make the value of the next key in advance, if `ahead`."""
        self.make = make
        self.pool = ThreadPoolExecutor(1) if ahead else None
        self.coming: tuple[Key, Future[Value]] | None = None

    def get(self, key: Key, following: Key) -> Value:
        """Return the value of the key, and begin with that of the key that is likely to follow."""
        coming, self.coming = self.coming, None
        value = coming[1].result() if coming is not None and coming[0] == key else self.make(key)
        if self.pool is not None:
            self.coming = following, self.pool.submit(self.make, following)
        return value

    def close(self) -> None:
        """End the thread."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
