"""Tiles: 128 floats of a compiled kernel that stay in vector registers from one pass of a loop to the next.

They are sums over the open nodes of a rollout: in an array, each addition would go through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from elgo.decode.vectors import (
    Generator,
    address,
    intrinsic,
    load_lanes,
    multiply_add,
    shuffle,
    store_lanes,
    sum_each,
    vector,
)

PARTS = 8  # of a tile: each has a weight of its own
LANES = 16  # floats in a part
WIDTH = PARTS * LANES
ROOM = WIDTH + LANES  # floats of a tile in memory: a sum of weighted rows, then the 8 sums of its weights

_LAYOUT = ir.ArrayType(vector(LANES), PARTS + 1)


class TileType(types.Type):
    """The type of a tile as numba knows it."""

    def __init__(self) -> None:
        super().__init__(name="Tile")


@register_model(TileType)
class _TileModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: TileType) -> None:
        super().__init__(manager, kind, _LAYOUT)


_TILE = TileType()


def _pack(builder: ir.IRBuilder, vectors: Sequence[Any]) -> Any:
    tile = ir.Constant(_LAYOUT, ir.Undefined)
    for i, each in enumerate(vectors):
        tile = builder.insert_value(tile, each, i)
    return tile


def _unpack(builder: ir.IRBuilder, tile: Any) -> list[Any]:
    return [builder.extract_value(tile, i) for i in range(PARTS + 1)]


@intrinsic
def zero_tile(_: Any) -> tuple[Any, Generator]:
    """Return a tile of zeros."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return ir.Constant(_LAYOUT, None)

    return _TILE(), generate


@intrinsic
def load_tile(_: Any, array: Any, index: Any) -> tuple[Any, Generator]:
    """Return the tile in array[index : index + ROOM]; arrays of any shape are seen as flat."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        start = address(context, builder, signature.args[0], *args)
        return _pack(builder, [load_lanes(builder, start, LANES * i, LANES) for i in range(PARTS + 1)])

    return _TILE(array, types.intp), generate


@intrinsic
def store_tile(_: Any, array: Any, index: Any, tile: Any) -> tuple[Any, Generator]:
    """array[index : index + ROOM] = tile."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        start = address(context, builder, signature.args[0], *args[:2])
        for i, each in enumerate(_unpack(builder, args[2])):
            store_lanes(builder, each, start, LANES * i)
        return context.get_dummy_value()

    return types.void(array, types.intp, _TILE), generate


@intrinsic
def add_weighted(_: Any, tile: Any, weights: Any, i: Any, rows: Any, j: Any) -> tuple[Any, Generator]:
    """Return the tile with rows[j : j + WIDTH] added, each part times its weight in weights[i : i + PARTS]."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        weight = address(context, builder, signature.args[1], *args[1:3])
        row = address(context, builder, signature.args[3], *args[3:])
        *parts, sums = _unpack(builder, args[0])
        for p in range(PARTS):
            one = load_lanes(builder, weight, p, 1)
            each = shuffle(builder, one, one, [0] * LANES)
            parts[p] = multiply_add(builder, each, load_lanes(builder, row, LANES * p, LANES), parts[p])
        all_ = load_lanes(builder, weight, 0, PARTS)
        zeros = ir.Constant(all_.type, [0.0] * PARTS)
        return _pack(builder, [*parts, builder.fadd(sums, shuffle(builder, all_, zeros, range(LANES)))])

    return _TILE(_TILE, weights, types.intp, rows, types.intp), generate


@intrinsic
def add_outer(_: Any, tile: Any, weights: Any, i: Any, step: Any, row: Any, j: Any) -> tuple[Any, Generator]:
    """Return the tile with row[j : j + LANES] added to each part, times weights[i], weights[i + step] and so on."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        weight = address(context, builder, signature.args[1], *args[1:3])
        same = load_lanes(builder, address(context, builder, signature.args[4], *args[4:]), 0, LANES)
        parts = _unpack(builder, args[0])
        for p in range(PARTS):
            one = load_lanes(builder, weight, 0, 1)
            parts[p] = multiply_add(builder, shuffle(builder, one, one, [0] * LANES), same, parts[p])
            weight = builder.gep(weight, [args[3]])
        return _pack(builder, parts)

    return _TILE(_TILE, weights, types.intp, types.intp, row, types.intp), generate


@intrinsic
def store_parts(_: Any, tile: Any, array: Any, index: Any, step: Any) -> tuple[Any, Generator]:
    """array[index : index + LANES] = the first part, the second at index + step and so on."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        place = address(context, builder, signature.args[1], *args[1:3])
        for part in _unpack(builder, args[0])[:PARTS]:
            store_lanes(builder, part, place, 0)
            place = builder.gep(place, [args[3]])
        return context.get_dummy_value()

    return types.void(_TILE, array, types.intp, types.intp), generate


@intrinsic
def mean(_: Any, tile: Any) -> tuple[Any, Generator]:
    """Return the tile with each part divided by the sum of its weights."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        *parts, sums = _unpack(builder, args[0])
        sums = shuffle(builder, sums, sums, range(PARTS))
        inverse = builder.fdiv(ir.Constant(sums.type, [1.0] * PARTS), sums)
        each = [builder.fmul(parts[p], shuffle(builder, inverse, inverse, [p] * LANES)) for p in range(PARTS)]
        return _pack(builder, [*each, builder.extract_value(args[0], PARTS)])

    return _TILE(_TILE), generate


@intrinsic
def dot4(_: Any, tile: Any, rows: Any, i: Any, j: Any, k: Any, m: Any) -> tuple[Any, Generator]:
    """Return the products of the tile with rows[i : i + WIDTH], rows[j : ...] and so on: 4 share their additions."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        parts, products = _unpack(builder, args[0])[:PARTS], []
        for index in args[2:]:
            row = address(context, builder, signature.args[1], args[1], index)
            sums = [builder.fmul(parts[p], load_lanes(builder, row, LANES * p, LANES)) for p in (0, 1)]
            for p in range(2, PARTS):
                factor = load_lanes(builder, row, LANES * p, LANES)
                sums[p % 2] = multiply_add(builder, parts[p], factor, sums[p % 2])
            products.append(builder.fadd(*sums))
        return sum_each(context, builder, products)

    return types.UniTuple(types.float32, 4)(_TILE, rows, *[types.intp] * 4), generate
