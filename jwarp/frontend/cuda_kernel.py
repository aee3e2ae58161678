"""Kernels written by hand in CUDA C++: what their author says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jwarp.config import Settings
from jwarp.errors import NO_SPAN, CompileError, Span
from jwarp.frontend.kernel_base import Kernel, Parameter
from jwarp.ir import nodes
from jwarp.types import Type

# Blocks of a launch along its axes: up to three numbers, or a function of the launch's dimensions.
Grid = int | tuple[int, ...] | Callable[[tuple[int, ...]], Any] | None


@dataclass(frozen=True)
class Blocks:
    """Threads of a block, and along (x, y, z) where they have a shape; and how many blocks a launch has along z."""

    size: int
    shape: tuple[int, ...] = ()
    depth: int = 1


@dataclass(frozen=True, eq=False)
class Definition:
    """A handwritten kernel without its identity as an object; two are equal only if they are one.

    `name` is what is called in `text`: a function, or an instance of a template. `file` is where messages say
    the text is. `outputs` are the parameters that the kernel writes, `in_outs` those of them that it reads before.
    `headers` are texts by the name they are included by, `folders` where other headers are looked for.
    """

    name: str
    text: str
    file: str
    params: tuple[nodes.Param, ...]
    outputs: tuple[int, ...]
    in_outs: tuple[int, ...] = ()
    full: tuple[int, ...] = ()  # outputs of which every launch writes all elements
    options: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    blocks: Blocks = Blocks(256)
    grid: Grid = None
    shared_bytes: int | Callable[[tuple[int, ...]], int] = 0
    adjoint: Kernel | Callable | None = None
    cpu: Kernel | Callable | None = None
    span: Span = NO_SPAN

    @property
    def inputs(self) -> tuple[int, ...]:
        """The parameters that the kernel reads, in order; those that it changes are among them."""
        return tuple(p for p in range(len(self.params)) if p not in self.outputs or p in self.in_outs)


class HandwrittenKernel(Kernel):
    """The kernel that `wp.cuda_kernel` makes. It is launched as a generated kernel is, and has no IR."""

    made_by = "wp.cuda_kernel"

    def __init__(self, definition: Definition, signature: tuple[tuple[str, Type], ...]):
        super().__init__(definition.name, tuple(Parameter(*parameter) for parameter in signature), definition.span)
        self.definition = definition

    def ir(self, settings: Settings | None = None) -> nodes.Kernel:
        raise CompileError(
            f"kernel '{self.name}' is written in CUDA C++, and is known by its parameters only",
            self.span,
            "differentiate it through its `adjoint`; wp.inspect shows the stages cuda, ptx, sass and resources",
        )

    def __reduce__(self) -> Any:
        """All that it was made of, for pickle: it does not know what name it has in a module."""
        return type(self), (self.definition, tuple((p.name, p.type) for p in self.signature))

    def outputs(self, settings: Settings) -> tuple[int, ...]:
        return self.definition.outputs

    def may_read(self, output: int) -> bool:
        return output in self.definition.in_outs

    @property
    def known_outputs(self) -> tuple[Sequence[int], Sequence[int]]:
        in_outs, outputs = self.definition.in_outs, self.definition.outputs
        return in_outs, [p for p in outputs if p not in in_outs]
