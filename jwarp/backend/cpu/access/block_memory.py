"""The memory that a block has for its tiles: arrays on the stack of the worker that runs the block."""

from __future__ import annotations

from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.code import ENTRY, Code, literal, memory_type
from jwarp.ir.attributes import BlockMatmul
from jwarp.ir.nodes import Const, Kernel, Local, Op
from jwarp.tiling.whole import request_of
from jwarp.types import bool_

ALIGNMENT = 64


class BlockMemory:
    """Writes what is done to whole arrays of a block."""

    def __init__(self, code: Code, memory: Memory, kernel: Kernel):
        self.code, self.kernel = code, kernel
        locals_ = kernel.locals if kernel.block_dim else ()
        self.arrays: dict[int, Local] = {len(kernel.params) + k: local for k, local in enumerate(locals_)}
        for array, local in self.arrays.items():
            size = f"[{local.size} x {memory_type(local.dtype)}]"
            # It is found by the name that a parameter would have.
            if local.values is not None:
                name, content = f"@table{array}", ", ".join(_element(local, value) for value in local.values)
                code.functions[name] = f"{name} = private unnamed_addr constant {size} [{content}], align {ALIGNMENT}"
                code.line(f"%p{array} = getelementptr i8, ptr {name}, i64 0", ENTRY)
                continue
            code.line(f"%p{array} = alloca {size}, align {ALIGNMENT}", ENTRY)

    def clear(self, array: int) -> None:
        """Set all elements to zero."""
        local = self.arrays[array]
        self.code.declare("void", "llvm.memset.p0.i64", ["ptr", "i8", "i64", "i1"])
        size = local.size * local.dtype.bits // 8
        self.code.line(f"call void @llvm.memset.p0.i64(ptr align {ALIGNMENT} %p{array}, i8 0, i64 {size}, i1 false)")

    def product(self, node: Op) -> None:
        """Call the code that is made for this product of matrices."""
        request = request_of(self.kernel, node)
        self.code.library[request] = None
        operands = node.attr_as(BlockMatmul)
        self.code.declare("void", request.symbol, ["ptr", "ptr", "ptr"])
        self.code.line(f"call void @{request.symbol}(ptr %p{operands.a}, ptr %p{operands.b}, ptr %p{operands.c})")


def _element(local: Local, value: float) -> str:
    kind = memory_type(local.dtype)
    return f"{kind} {int(value)}" if local.dtype is bool_ else f"{kind} {literal(Const(local.dtype, value))}"
