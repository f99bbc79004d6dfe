"""`python -m elg` is the `elg` command."""

from elg.cli import main

main()
