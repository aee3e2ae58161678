"""A graph as a program of JAX's: what it does to its arrays, exported, with what they hold."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import Command
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.bind.compat import with_x64
from jwarp.bind.control import traced_if, traced_while
from jwarp.bind.functional import Given, stand_ins
from jwarp.bind.register import EXPORT_CHECKS
from jwarp.bind.trees import Mapped, Shown
from jwarp.devices import CPU
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.tape.graphs import Graph
from jwarp.dispatch.tape.native_steps import Branch, Loop
from jwarp.errors import LaunchError


@dataclass(frozen=True)
class Param:
    """Where an array with a name is: elements of a region, by `shape` with the axes of components, and bytes."""

    region: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def of(self, region: np.ndarray) -> np.ndarray:
        """The view of the region.

        Raises:
            ValueError, TypeError: it reaches out of the region.
        """
        return np.ndarray(self.shape, self.dtype, region.reshape(-1).view(np.uint8), self.offset, self.strides)


@dataclass(frozen=True)
class ExportedGraph:
    """The content of a file of a graph.

    Attributes:
        program: The serialised program: of the contents of all regions, the new ones of those that are `written`.
        regions: The contents of the memory that the graph reads and writes, as they were when it was exported.
        written: The numbers of the regions that the program writes.
        params: Where the arrays are that have names.
    """

    program: bytes
    regions: tuple[np.ndarray, ...]
    written: tuple[int, ...]
    params: Mapping[str, Param]


def export_graph(graph: Graph, named: Mapping[str, array]) -> ExportedGraph:
    """Export a graph of launches, copies, fills, branches and loops on arrays of the host.

    Raises:
        LaunchError: it does something else, or an array is on a GPU.
    """
    if graph.looks_up:
        raise LaunchError(
            "a graph is exported without what its kernels find by numbers: ids in arrays, arrays in arrays of structs",
            hint="pass grids, trees, meshes and arrays themselves",
        )
    for name, a in named.items():
        _refuse_gpu(f"'{name}'", [a])
    with with_x64(True):  # so that arrays of 64-bit numbers are regions like the others
        arguments = {"commands": _arrays_of(graph.commands), "params": dict(named)}
        given = Given(arguments, tuple(arguments))
        written: list[int] = []

        def program(*contents: Any) -> list[Any]:
            memories, made, _ = stand_ins(given, contents)
            _run_on(graph.commands, made["commands"])
            written[:] = [k for k, memory in enumerate(memories) if memory.version]
            return [memories[k].value for k in written]

        contents = [np.asarray(x) for x in given.contents]
        exported = jax.export.export(jax.jit(program), platforms=["cpu"], disabled_checks=EXPORT_CHECKS)(*contents)
        return ExportedGraph(bytes(exported.serialize()), tuple(contents), tuple(written), _params(given))


def program_of(exported: ExportedGraph) -> Callable[..., Sequence[np.ndarray]]:
    """The program of an exported graph, compiled when it is called first: new contents of what is written, in order.

    Raises:
        LaunchError: the bytes are no program.
    """
    with with_x64(True):
        try:
            call = jax.jit(jax.export.deserialize(bytearray(exported.program)).call)
        except Exception as error:
            raise LaunchError(f"the program of a saved graph cannot be read: {error}") from error

    def run(*contents: Any) -> Sequence[np.ndarray]:
        with with_x64(True):
            return [np.asarray(x) for x in call(*contents)]

    return run


@dataclass(frozen=True)
class _Form:
    """A kind of command as it is exported.

    Attributes:
        arrays: The arrays of such a command, with whatever they are in, as a tree; None where it has no form in a file.
        run: Does while JAX traces what the command does, on other arrays.
    """

    arrays: Callable[[Any], list[Any] | None]
    run: Callable[[Any, Any], None]


def _form(command: Command) -> _Form | None:
    return next((form for kind, form in _FORMS.items() if isinstance(command, kind)), None)


def _arrays_of(commands: Sequence[Command]) -> list[Any]:
    """The trees of the arrays of commands.

    Raises:
        LaunchError: one of them has no form in a file.
    """
    trees = []
    for command in commands:
        form = _form(command)
        arrays = None if form is None else form.arrays(command)
        if arrays is None:
            raise _refusal(command)
        _refuse_gpu(_name_of(command), arrays)
        trees.append(arrays)
    return trees


def _refuse_gpu(what: str, parts: Iterable[Any]) -> None:
    """Refuse arrays of a GPU, which are no regions of a file; launches on these have been refused."""
    for part in parts:
        if isinstance(part, array) and part.device is not None and part.device.is_cuda:
            raise LaunchError(
                f"{what} has an array on {part.device}, and a graph that is saved has arrays of the host",
                hint="copy it to the host, and capture the graph there",
            )


def _name_of(command: Command) -> str:
    match command:
        case ArrayLaunch():
            return f"a launch of '{command.kernel.name}' on a GPU"
        case Computation():
            return command.name
        case Copy() | Fill():
            return "a copy" if isinstance(command, Copy) else "a fill"
        case Branch() | Loop():
            return "wp.capture_if" if isinstance(command, Branch) else "wp.capture_while"
        case _:
            return "a call of Python's, such as a refit or the backward pass of a tape,"


def _refusal(command: Command) -> LaunchError:
    return LaunchError(
        f"{_name_of(command)} is part of a graph that is to be saved, and has no form in a file",
        hint="save a graph of launches, copies, fills, wp.capture_if and wp.capture_while on arrays of the host",
    )


def _run_on(commands: Sequence[Command], trees: Sequence[Any]) -> None:
    """Do while JAX traces what commands do, on other arrays."""
    for command, arrays in zip(commands, trees, strict=True):
        form = _form(command)
        assert form is not None  # as its arrays have been taken
        form.run(command, arrays)


def _arrays_of_launch(command: ArrayLaunch) -> list[Any] | None:
    return list(command.given) if command.device == CPU else None


def _run_launch(command: ArrayLaunch, given: Any) -> None:
    ArrayLaunch(command.kernel, command.dims, given, None, command.block_dim).run()


def _arrays_of_computation(command: Computation) -> list[Any] | None:
    return None if command.made_by is None else list(command.made_by[1])


def _run_computation(command: Computation, arguments: Any) -> None:
    assert command.made_by is not None
    command.made_by[0](*arguments)


def _run_branch(command: Branch, arrays: Any) -> None:
    condition, *trees = arrays
    both = zip((command.on_true, command.on_false), trees, strict=True)
    branches = [functools.partial(_run_on, *part) for part in both]
    traced_if(condition, branches, branches, "part of a graph that is saved")


def _run_loop(command: Loop, arrays: Any) -> None:
    condition, tree = arrays
    body = functools.partial(_run_on, command.body, tree)
    traced_while(condition, body, body, "of a graph that is saved")


_FORMS: dict[type[Command], _Form] = {
    ArrayLaunch: _Form(_arrays_of_launch, _run_launch),
    Copy: _Form(lambda copy: [copy.dest, copy.src], lambda _, arrays: Copy(*arrays).run()),
    Fill: _Form(lambda fill: [fill.array], lambda fill, arrays: Fill(arrays[0], fill.value).run()),
    Computation: _Form(_arrays_of_computation, _run_computation),
    Branch: _Form(lambda c: [c.condition, _arrays_of(c.on_true), _arrays_of(c.on_false)], _run_branch),
    Loop: _Form(lambda loop: [loop.condition, _arrays_of(loop.body)], _run_loop),
    Graph: _Form(lambda graph: _arrays_of(graph.commands), lambda graph, trees: _run_on(graph.commands, trees)),
}


def _params(given: Given) -> dict[str, Param]:
    """Where the arrays with names are."""
    node = given.nodes["params"]
    assert isinstance(node, Mapped)
    found = {}
    for name, item in zip(node.keys, node.items, strict=True):
        if not isinstance(item, Shown):
            raise LaunchError(f"'{name}' is an array without elements, or an array of structs: name one of its fields")
        layout, start = item.layout, given.wholes[item.memory].bounds[0]
        found[str(name)] = Param(
            item.memory, layout.dtype.name, layout.full_shape, layout.full_strides, layout.offset - start
        )
    return found
