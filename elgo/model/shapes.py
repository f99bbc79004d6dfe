"""Names and shapes of a network's parameters, known from its config alone: no network is built, no torch needed."""

from collections.abc import Iterator

from elgo.model.config import PolicyConfig

Shapes = dict[str, tuple[int, ...]]


def tensor_shapes(config: PolicyConfig) -> Shapes:
    """Return the shape of each parameter of the paper's network."""
    return (dict(_global(config)) if config.global_policy else {}) | local_shapes(config)


def local_shapes(config: PolicyConfig) -> Shapes:
    """Return those of the local policy, whose parameters always exist."""
    return dict(_local(config))


def _global(config: PolicyConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, depot = config.width, config.has_depot
    yield from _linear("global_.embed", 3 if depot else 2, width)
    if depot:
        yield from _linear("global_.embed_depot", 2, width)
    for layer in range(config.layers):
        yield from _layer(f"global_.layers.{layer}", width, config.hidden)
    if depot:
        yield "global_.query_load.weight", (width, 1)
    else:
        yield "global_.query_first.weight", (width, width)
    for name in ("query_last", "key", "value"):
        yield f"global_.{name}.weight", (width, width)
    yield from _linear("global_.combine", width, width)


def _local(config: PolicyConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = config.local_width
    yield from _linear("local.embed", 3 if config.has_depot else 2, width)
    for name in ("depot", "context") if config.has_depot else ("context",):
        yield f"local.{name}", (width,)
    for layer in range(config.local_layers):
        yield from _layer(f"local.layers.{layer}", width, 4 * width)
    for name in ("query", "key", "value"):
        yield f"local.{name}.weight", (width, width)
    yield from _linear("local.combine", width, width)


def _layer(name: str, width: int, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.qkv.weight", (3 * width, width)
    yield from _linear(f"{name}.combine", width, width)
    yield from _linear(f"{name}.up", width, hidden)
    yield from _linear(f"{name}.down", hidden, width)
    for norm in ("norm1", "norm2"):
        yield f"{name}.{norm}.weight", (width,)
        yield f"{name}.{norm}.bias", (width,)


def _linear(name: str, inputs: int, outputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)
