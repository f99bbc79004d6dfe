"""`python -m elgo` is the `elgo` command."""

from elgo.cli.main import main

main()
