"""Vectors of 8 floats as values of compiled kernels, which LLVM maps to what the processor has.

numba's own loops vectorise too, but short ones, as those over the neighbours, then spend their time on checks whether
arrays overlap, on the rest that does not fill a vector, and on adding up the lanes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import extending, njit, types
from numba.extending import lower_builtin, models, register_model, type_callable

LANES = 8

Generator = Callable[..., Any]  # writes the LLVM instructions of an intrinsic
intrinsic: Any = extending.intrinsic  # its calls lack the first argument, which type checkers would miss
_FUSED = ("contract",)  # a product may be added without rounding it first


class VectorType(types.Type):
    """The type of a vector as numba knows it."""

    def __init__(self) -> None:
        super().__init__(name="Vector")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, vector(LANES))


_VECTOR = VectorType()

# --- what writes LLVM instructions -----------------------------------------------------------------------------------


def vector(lanes: int) -> ir.VectorType:
    return ir.VectorType(ir.FloatType(), lanes)


def address(context: Any, builder: ir.IRBuilder, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of an element of a contiguous array, counted as if it had one axis."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def load_lanes(builder: ir.IRBuilder, start: Any, offset: int, lanes: int) -> Any:
    loaded = builder.load(_at(builder, start, offset, lanes))
    loaded.align = 4
    return loaded


def store_lanes(builder: ir.IRBuilder, value: Any, start: Any, offset: int) -> None:
    builder.store(value, _at(builder, start, offset, value.type.count)).align = 4


def _at(builder: ir.IRBuilder, start: Any, offset: int, lanes: int) -> Any:
    element = builder.gep(start, [ir.Constant(ir.IntType(64), offset)])
    return builder.bitcast(element, vector(lanes).as_pointer())


def shuffle(builder: ir.IRBuilder, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    """Return the chosen lanes of two vectors, those of b counted after those of a."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes)))


def multiply_add(builder: ir.IRBuilder, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c."""
    return builder.fadd(builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)


def sum_each(context: Any, builder: ir.IRBuilder, vectors: Sequence[Any]) -> Any:
    """Return the sums of the lanes of 4 vectors of 8 or 16, as a tuple: together they take fewest instructions."""

    def fold(x: Any, y: Any, low: Sequence[int], high: Sequence[int]) -> Any:
        return builder.fadd(shuffle(builder, x, y, low), shuffle(builder, x, y, high))

    def in_quads(*lanes: int) -> list[int]:
        return [quad + lane for quad in range(0, n, 4) for lane in lanes]

    a, b, c, d = vectors
    n = a.type.count
    low, high = in_quads(0, n, 1, n + 1), in_quads(2, n + 2, 3, n + 3)
    sums = fold(fold(a, b, low, high), fold(c, d, low, high), in_quads(0, 1, n, n + 1), in_quads(2, 3, n + 2, n + 3))
    while n > 4:
        n //= 2
        sums = fold(sums, sums, range(n), range(n, 2 * n))
    return context.make_tuple(builder, _FOUR, [builder.extract_element(sums, _index(i)) for i in range(4)])


_FOUR = types.UniTuple(types.float32, 4)


def _index(i: int) -> Any:
    return ir.Constant(ir.IntType(32), i)


def _constant(x: float) -> Any:
    return ir.Constant(vector(LANES), [x] * LANES)


# --- what kernels call -----------------------------------------------------------------------------------------------


@intrinsic
def load(_: Any, array: Any, index: Any) -> tuple[Any, Generator]:
    """Return the vector array[index : index + 8]; arrays of any shape are seen as flat."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return load_lanes(builder, address(context, builder, signature.args[0], *args), 0, LANES)

    return _VECTOR(array, types.intp), generate


@intrinsic
def store(_: Any, array: Any, index: Any, value: Any) -> tuple[Any, Generator]:
    """array[index : index + 8] = value."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        store_lanes(builder, args[2], address(context, builder, signature.args[0], *args[:2]), 0)
        return context.get_dummy_value()

    return types.void(array, types.intp, _VECTOR), generate


@intrinsic
def splat(_: Any, x: Any) -> tuple[Any, Generator]:
    """Return the vector of 8 times x."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        one = builder.insert_element(ir.Constant(vector(LANES), ir.Undefined), args[0], _index(0))
        return shuffle(builder, one, one, [0] * LANES)

    return _VECTOR(types.float32), generate


@intrinsic
def sums(_: Any, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Generator]:
    """Return the sums of the lanes of 4 vectors."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return sum_each(context, builder, args)

    return _FOUR(_VECTOR, _VECTOR, _VECTOR, _VECTOR), generate


@njit(fastmath={"contract"})  # flags of the caller, which allow reassociation, would cancel the rounding trick
def exp(x: VectorType) -> VectorType:
    """Return exp of each lane to within 2 ulp, by the steps of `elgo.decode.arithmetic.exp32`."""
    return _exp(x)


@intrinsic
def _exp(_: Any, x: Any) -> tuple[Any, Generator]:

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        low, high = _constant(-87.0), _constant(88.0)
        x = builder.select(builder.fcmp_ordered("<", args[0], low), low, args[0])  # NaN stays NaN
        x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
        rounder = _constant(12582912.0)
        k = builder.fsub(multiply_add(builder, x, _constant(1.4426950408889634), rounder), rounder)
        f = multiply_add(builder, k, _constant(-0.693359375), x)
        f = multiply_add(builder, k, _constant(2.12194440e-4), f)
        p = _constant(1.9875691500e-4)
        for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            p = multiply_add(builder, p, f, _constant(c))
        p = multiply_add(builder, p, builder.fmul(f, f), builder.fadd(f, _constant(1.0)))
        whole = ir.VectorType(ir.IntType(32), LANES)
        power = builder.add(builder.fptosi(k, whole), ir.Constant(whole, [127] * LANES))
        return builder.fmul(p, builder.bitcast(builder.shl(power, ir.Constant(whole, [23] * LANES)), x.type))

    return _VECTOR(_VECTOR), generate


def _operator(symbol: Any, instruction: str) -> None:
    """Let kernels write `a + b` and the like for vectors."""

    @type_callable(symbol)
    def typed(context: Any) -> Any:
        return lambda a, b: _VECTOR if a == b == _VECTOR else None

    @lower_builtin(symbol, _VECTOR, _VECTOR)
    def lowered(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args, flags=_FUSED)


for _symbol, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _operator(_symbol, _instruction)
