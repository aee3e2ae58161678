"""Settles where a kernel runs: on GPUs with its native code, elsewhere with what stands for that there."""

from __future__ import annotations

import dataclasses

from jwarp.errors import CompileError
from jwarp.frontend.native_texts.reader import hindrance
from jwarp.ir.attributes import NativeCall
from jwarp.ir.nodes import Const, Kernel, Op, walk
from jwarp.ir.visit import Rebuilder
from jwarp.passes.simplify import simplify
from jwarp.types import bool_


def settled(kernel: Kernel, *, on_gpu: bool) -> Kernel:
    """The kernel as a GPU runs it, or as anything else does."""
    if not any(isinstance(n, Op) and n.row.threads.is_target for n in walk(kernel.body)):
        return kernel
    return simplify(dataclasses.replace(kernel, body=_Settled(on_gpu).block(kernel.body)))


class _Settled(Rebuilder):
    def __init__(self, on_gpu: bool):
        super().__init__()
        self.on_gpu = Const(bool_, on_gpu)

    def op(self, node: Op) -> None:
        if node.row.threads.is_target:
            assert node.result is not None
            self.known[node.result] = self.on_gpu
        else:
            self.keep(node)


def refuse_native_code(kernel: Kernel) -> None:
    """Refuse native code, where no GPU runs the kernel.

    Raises:
        CompileError: the kernel calls some.
    """
    for node in walk(kernel.body):
        if isinstance(node, Op) and node.row.is_native:
            call = node.attr_as(NativeCall)
            raise CompileError(
                f"kernel `{kernel.name}`: `{call.function}` is native code, which runs on GPUs alone, as its text has "
                f"{hindrance(call)}",
                node.span,
                "give it the same in the kernel language: @wp.func_native(snippet, cpu=f) with a @wp.func f",
            )
