"""`wp.Tape`: records what is done to arrays, and takes gradients back through it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jwarp.api import array_access, tape_graph
from jwarp.arrays.array import array
from jwarp.arrays.commands import LISTENING, Call, Command, close_recorder, listeners, open_recorder, submit
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.stand_ins import original
from jwarp.arrays.writes import Copy, Fill
from jwarp.bind.compat import is_not_tracing
from jwarp.devices import DeviceLike, get_device
from jwarp.dispatch.call.call import LaunchRequest, read_kernel
from jwarp.dispatch.call.ids import ON_TAPE
from jwarp.dispatch.call.instances import choose
from jwarp.dispatch.executables.array_launch import array_launch
from jwarp.dispatch.steps.executors import Recorded, Replay
from jwarp.dispatch.tape.entries import Entry, FunctionEntry, zeroing
from jwarp.dispatch.tape.native_steps import native_graph, steps_of, written_by
from jwarp.dispatch.tape.tape import Backward, OfTape, entry_of
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import Struct


class Gradients(dict[Any, Any]):
    """The gradient of each array that a tape has met; of a struct, the struct of the gradients of its arrays."""

    def __missing__(self, key: Any) -> Any:
        if not isinstance(key, Struct):
            raise KeyError(key)
        return self.adjoint(key)

    def adjoint(self, a: Any) -> Any:
        """The gradient of an array or a struct, and of an array also if it has not been met; or None."""
        if isinstance(a, array):
            if a.grad is not None:
                self[a] = a.grad
            return a.grad
        if isinstance(a, Struct):
            made = type(a)()
            for name in type(a).fields:
                value = getattr(a, name)
                setattr(made, name, self.adjoint(value) if isinstance(value, (array, Struct)) else value)
            return made
        return None


def _zeroing(gradients: Iterable[array]) -> list[Command]:
    """The commands that set gradients to zero."""
    return [zeroing(grad) for grad in gradients]


class _Zeroing:
    """Sets gradients to zero, natively where they are in host memory."""

    def __init__(self, gradients: Iterable[array]):
        self._gradients = tuple(gradients)
        self._replay: Replay | None = None
        self._is_made = False

    def is_of(self, gradients: Collection[array]) -> bool:
        """True if it is of these and no others."""
        return len(gradients) == len(self._gradients) and all(map(operator.is_, gradients, self._gradients))

    def __call__(self) -> bool:
        """Do it; False where Python has to."""
        if not self._is_made:
            self._is_made, each = True, {id(g): g for g in self._gradients}.values()
            memories = [getattr(g, "memory", None) for g in each]
            if all(type(m) is HostMemory and m.buffer.flags.writeable for m in memories):
                commands = _zeroing(each)
                native = native_graph(commands)
                self._replay = None if native is None else Replay(native, written_by(commands))
        if self._replay is None:
            return False
        self._replay()
        return True


class Tape:
    """Records launches, copies and fills of arrays while it is open, and propagates gradients back through them.

    Gradients go to `a.grad` of arrays made with `requires_grad=True`; other arrays are constants. Gradients are those
    of what the program computed, even if arrays were overwritten later, or by the launch that read them: content that
    an adjoint reads is saved before it is overwritten. `backward` adds to `a.grad` the gradient with respect to the
    content of `a` at the start of the recording; it is zero where everything was overwritten. With `a.retain_grad =
    True`, gradients of overwritten content, such as the results of a launch, are added as well.

    Tapes may be nested. Each records the operations of the thread that opened it. `reset` frees the saved content; so
    does dropping the tape.

    Attributes:
        is_open: Whether it is recording.
        gradients: The gradient of each array that `backward` reached; for a struct, those of its arrays.
        launches: The recorded operations, in order.

    Example:
        >>> tape = wp.Tape()
        >>> with tape:
        ...     wp.launch(square, dim=3, inputs=[x], outputs=[y])
        >>> tape.backward(grads={y: wp.ones(3)})
        >>> x.grad
    """

    def __init__(self) -> None:
        self.gradients = Gradients()
        self.launches: list[Entry] = []
        self.scopes: list[tuple[int, str | None, Mapping[str, Any] | None]] = []
        self.loss: array | None = None
        self.is_open = False
        self._taken: list[Command] | None = None
        self._next: dict[int, Entry | None] = {}
        self._zeroing: _Zeroing | None = None  # of these gradients, natively, once it was done twice

    def __enter__(self) -> Tape:
        if self.is_open:
            raise LaunchError("wp.Tape: this tape is recording already", hint="use another tape inside of it")
        self.is_open = True
        taken = listeners.here.capture
        # A graph that is launched again records anew.
        begin = len(self.launches) if taken is not None and taken is not self._taken else None
        self._taken = taken
        if taken is None:
            self._open(begin)
        else:
            listeners.here.captured_tapes += 1
            submit(OfTape(self, lambda: self._open(begin), lambda: None if begin else []))
        return self

    def _open(self, begin: int | None) -> None:
        if begin is not None:
            del self.launches[begin:]
        open_recorder(self)

    def __exit__(self, *_: Any) -> None:
        self.is_open = False
        if listeners.here.capture is None:
            close_recorder(self)
        else:
            listeners.here.captured_tapes -= 1
            submit(OfTape(self, lambda: close_recorder(self), list))

    # -- recording

    def before(self, command: Command) -> None:
        """`command` is about to run."""
        self._next[id(command)] = entry_of(command)

    def after(self, command: Command) -> None:
        """`command` has run."""
        entry = self._next.pop(id(command), None)
        if entry is not None:
            self.launches.append(entry)
        if array_access.is_verified():
            array_access.note(command, self)

    def record_launch(
        self,
        kernel: Kernel,
        dim: Any,
        max_blocks: int,
        inputs: Any,
        outputs: Any,
        device: DeviceLike,
        block_dim: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a launch on mutable arrays as if it ran now, without running it.

        `backward` uses the content that the arrays have now. `max_blocks` and `metadata` have no effect.

        Raises:
            KernelTypeError, LaunchError: As for `wp.launch`.
        """
        kernel = read_kernel(kernel, "wp.Tape.record_launch")
        kernel, inputs, *_ = choose(kernel, inputs, outputs, ON_TAPE)
        launch = array_launch(
            LaunchRequest(kernel, dim, inputs, outputs, device=get_device(device), block_dim=block_dim)
        )

        def remember() -> None:
            entry = entry_of(launch)
            if entry is not None:
                self.launches.append(entry)

        submit(Call(remember))

    def record_func(self, backward: Callable[[], Any], arrays: Sequence[array]) -> None:
        """Record a function that computes gradients itself.

        Args:
            backward: Called by `backward` at this point. It adds to `grad` of its inputs, from `grad` of its outputs.
            arrays: The arrays whose gradients it uses; `zero` clears these.

        Raises:
            KernelTypeError: One of `arrays` is not an array, or has no gradient.
        """
        for a in arrays:
            if not isinstance(a, array) or a.grad is None:
                raise KernelTypeError(
                    f"wp.Tape.record_func: {a!r} is no array with a gradient", hint="make it with requires_grad=True"
                )
            self.gradients[a] = a.grad
        entry = FunctionEntry(backward, arrays)
        submit(Call(lambda: self.launches.append(entry)))

    def record_scope_begin(self, scope_name: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Begin a named group of operations, for display."""
        self.scopes.append((len(self.launches), scope_name, metadata or {}))

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """End the innermost group. A group without operations is dropped.

        Raises:
            LaunchError: No group is open.
        """
        open_scopes = sum(-1 if name is None else 1 for _, name, _ in self.scopes)
        if not open_scopes:
            raise LaunchError("wp.Tape.record_scope_end: ended tape scope, but scope not present")
        begin, name, _ = self.scopes[-1]
        if remove_scope_if_empty and name is not None and begin == len(self.launches):
            self.scopes.pop()
        else:
            self.scopes.append((len(self.launches), None, None))

    def visualize(
        self,
        filename: str | Path | None = None,
        simplify_graph: bool = True,
        hide_readonly_arrays: bool = False,
        array_labels: Mapping[array, str] | None = None,
        choose_longest_node_name: bool = True,
        ignore_graph_scopes: bool = False,
        track_inputs: Sequence[array] = (),
        track_outputs: Sequence[array] = (),
        track_input_names: Sequence[str] = (),
        track_output_names: Sequence[str] = (),
        graph_direction: str = "LR",
    ) -> str:
        """The graph of the recorded operations as text for GraphViz (`dot -Tpng tape.dot -o tape.png`).

        Args:
            filename: A file to which the text is also written.
            simplify_graph: Show repeated operations on the same arrays once, with their number.
            hide_readonly_arrays: Leave out arrays that no operation writes.
            array_labels: Labels of arrays; others have the names of parameters.
            choose_longest_node_name: Of several names, use the longest instead of the first.
            ignore_graph_scopes: Leave out the groups of `record_scope_begin`.
            track_inputs, track_outputs: Arrays that are always shown.
            track_input_names, track_output_names: Their labels.
            graph_direction: The direction of edges: "LR", "TB", "RL" or "BT".
        """
        inputs = track_inputs or (), track_input_names or ()
        outputs = track_outputs or (), track_output_names or ()
        choices = tape_graph.Choices(
            simplify_graph, hide_readonly_arrays, array_labels, choose_longest_node_name, ignore_graph_scopes,
            inputs, outputs, graph_direction,
        )  # fmt: skip
        found = tape_graph.text_of(self.launches, self.scopes, choices)
        if filename is not None:
            tape_graph.write(filename, found)
        return found

    # -- going back

    def backward(self, loss: array | None = None, grads: Mapping[array, array] | None = None) -> None:
        """Propagate gradients back through the recorded operations, and add them to `grad` of the arrays.

        Args:
            loss: An array of one number, whose gradient is set to 1.
            grads: Arrays, and the values to which their gradients are set. If an array has no gradient, the given array
                becomes its `grad`.

        Raises:
            LaunchError: `loss` is not a single number with a gradient, or an array shares memory with another one and
                has its own gradient.
            NotDifferentiableError: A gradient reaches a kernel without an exact derivative.
        """
        if loss is not None:
            self._refuse_loss(loss)
        given = dict(grads or {})
        run, steps = lambda: self._backward(loss, given), lambda: self._steps(loss, given)
        submit(OfTape(self, run, steps, goes_back=True))

    def _refuse_loss(self, loss: Any) -> None:
        if not isinstance(loss, array) or loss.size != 1 or loss.layout.full_shape != loss.shape:
            shown = f"array of {loss.dtype!r}, shape {loss.shape}" if isinstance(loss, array) else type(loss).__name__
            raise LaunchError(
                f"wp.Tape.backward: a loss is an array of one number, got {shown}",
                hint="grads={a: g} starts from gradients of other arrays",
            )
        if loss.grad is None:
            raise LaunchError("wp.Tape.backward: the loss has no gradient", hint="make it with requires_grad=True")

    def _backward(self, loss: array | None, grads: Mapping[array, array]) -> None:
        if loss is not None and loss.grad is not None:
            loss.grad.fill_(1.0)
        for a, g in grads.items():
            if a.grad is None:
                a.grad = g
            else:
                a.grad.assign(g)
        command = Backward(self.launches)
        array_access.forget(self)
        try:
            submit(command)
        finally:  # what has gone back before an error is zeroed, too
            self.gradients.update((original(a), a.grad) for a in command.met if a.grad is not None)

    def _steps(self, loss: array | None, grads: Mapping[array, array]) -> list[Recorded] | None:
        """The steps that do the same as `_backward`; None where Python runs it."""
        starts = [] if loss is None or loss.grad is None else [Fill(loss.grad, np.ones((), loss.grad.layout.dtype))]
        copies = [Copy(a.grad, g) for a, g in grads.items() if a.grad is not g]
        if not all(isinstance(g, array) for g in grads.values()) or any(
            (into.dest.layout.full_shape, into.dest.dtype) != (into.src.layout.full_shape, into.src.dtype)
            for into in copies
        ):
            return None
        first, after = steps_of([*starts, *copies]), Backward(self.launches).steps()
        return None if first is None or after is None else first + after

    def get_adjoint(self, a: Any) -> Any:
        """The gradient of an array, a struct of the gradients of a struct's arrays, or None."""
        return self.gradients.adjoint(a)

    def zero(self) -> None:
        """Set all gradients that the tape has reached to zero."""
        submit(OfTape(self, self._zero, lambda: steps_of(_zeroing(self._each_gradient()))))

    def _zero(self) -> None:
        if not LISTENING and is_not_tracing():
            known = self._zeroing
            if known is None or not known.is_of(self.gradients.values()):
                self._zeroing = _Zeroing(self.gradients.values())
            elif known():
                return
        for grad in self._each_gradient():
            grad.zero_()

    def _each_gradient(self) -> tuple[array, ...]:
        """The gradients, each once."""
        return tuple({id(g): g for g in self.gradients.values()}.values())

    def reset(self) -> None:
        """Drop all records, and set the gradients to zero."""
        submit(OfTape(self, self._forget, list))
        self.zero()

    def _forget(self) -> None:
        array_access.forget(self)
        self.launches = []
        self.scopes = []
