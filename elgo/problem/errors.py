"""The exceptions of the package."""


class ElgoError(ValueError):
    """Wrong input: the message is one line that names the file or the field, and the value."""
