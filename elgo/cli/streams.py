"""Standard streams that may be closed: by the caller (`>&-`), or by a reader that has seen enough (`| head`)."""

import os
import sys
from typing import Any, TextIO, cast


class LenientStream:
    """A text stream that drops what is written after one of these errors, such as the end of its reader."""

    def __init__(self, stream: TextIO, ignored: type[OSError]) -> None:
        self._stream, self._ignored = stream, ignored

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop the text."""
        try:
            return self._stream.write(text)
        except self._ignored:
            self.discard()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what is in the buffer."""
        try:
            self._stream.flush()
        except self._ignored:
            self.discard()

    def discard(self) -> None:
        """Drop what is in the buffer and what comes."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def prepare_streams() -> None:
    """Replace closed standard streams, whose numbers the next opened files would take, and make the others lenient."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    # A full disk fails the command if it takes the table, but not if it takes messages.
    for name, ignored in (("stdout", BrokenPipeError), ("stderr", OSError)):
        stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: SIM115
        setattr(sys, name, LenientStream(stream, ignored))


def flush_streams() -> str:
    """Write out what is in the buffers; return the reason if that is impossible, such as a full disk."""
    fault = ""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            fault = error.strerror or str(error)
            cast(LenientStream, stream).discard()
    return fault
