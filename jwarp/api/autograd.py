"""`wp.autograd`: Jacobians of kernels and functions of arrays, by adjoints and by differences, and checks of them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jwarp.api.launch import launch
from jwarp.api.tape import Tape
from jwarp.arrays.array import array
from jwarp.arrays.create import clone, zeros_like
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel

Mask = Sequence[tuple[str | int, str | int]]
Jacobians = dict[tuple[int, int], array]


@dataclass
class FunctionMetadata:
    """The names of a function, its inputs and outputs, as reports and plots of Jacobians show them."""

    key: str | None = None
    input_labels: list[str] = field(default_factory=list)
    output_labels: list[str] = field(default_factory=list)
    input_strides: list[Any] = field(default_factory=list)
    output_strides: list[Any] = field(default_factory=list)
    input_dtypes: list[Any] = field(default_factory=list)
    output_dtypes: list[Any] = field(default_factory=list)


class _Probe:
    """A kernel or a function with its inputs: runs it, and puts back what that changed."""

    def __init__(self, function: Any, dim: Any, inputs: Any, outputs: Any, restore: bool, **options: Any):
        self.is_kernel = isinstance(function, Kernel)
        if inputs is None:
            raise LaunchError("wp.autograd: The inputs argument must be provided")
        if self.is_kernel and not outputs:
            raise LaunchError("A list of output arguments must be provided to compute kernel Jacobians")
        self.function, self.dim, self.options = function, dim, {k: x for k, x in options.items() if x is not None}
        self.inputs, self.given = list(inputs), list(outputs or ())
        changed = [*self.inputs, *self.given] if self.is_kernel else self.inputs if restore else []
        self.before = [(a, clone(a, requires_grad=False)) for a in changed if isinstance(a, array)]

    def run(self) -> list[Any]:
        """The outputs."""
        if self.is_kernel:
            launch(self.function, self.dim, self.inputs, self.given, **self.options)
            return self.given
        found = self.function(*self.inputs)
        return [found] if isinstance(found, array) else list(found)

    def restore(self) -> None:
        """Put back what the arrays held."""
        for a, content in self.before:
            a.assign(content)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Put back what the arrays held, also after an error."""
        try:
            yield
        finally:
            self.restore()

    def metadata(self, outputs: Sequence[Any]) -> FunctionMetadata:
        """The names; outputs of functions are numbered."""
        if self.is_kernel:
            names = [parameter.name for parameter in self.function.signature]
            key, inputs = self.function.name, names[: len(self.inputs)]
            labels = names[len(self.inputs) :]
        else:
            key, inputs = self.function.__name__, list(inspect.signature(self.function).parameters)
            labels = [f"output_{k}" for k in range(len(outputs))]
        sides = [
            [getattr(x, name, None) for x in side] for name in ("strides", "dtype") for side in (self.inputs, outputs)
        ]
        return FunctionMetadata(key, inputs, labels, *(sides[k] for k in range(4)))

    def pairs(self, outputs: Sequence[Any], known: FunctionMetadata, mask: Mask | None) -> Iterator[tuple[int, int]]:
        """The inputs and outputs that have gradients, of those that are asked for."""
        sides = known.input_labels, known.output_labels
        try:
            wanted = {
                tuple(x if isinstance(x, int) else names.index(x) for x, names in zip(pair, sides, strict=True))
                for pair in mask or ()
            }
        except ValueError as error:
            raise LaunchError(f"wp.autograd: input_output_mask names no input or output: {error}") from None
        for pair in itertools.product(range(len(self.inputs)), range(len(outputs))):
            ends = self.inputs[pair[0]], outputs[pair[1]]
            if (not wanted or pair in wanted) and all(isinstance(a, array) and a.requires_grad for a in ends):
                yield pair


def _numbers(a: array) -> np.ndarray:
    return a.numpy().reshape(-1)


def _matrix(rows: np.ndarray, like: array) -> array:
    """A Jacobian, whose rows have elements of the type of an input."""
    components = like.layout.full_shape[like.ndim :]
    return array(rows.reshape(len(rows), like.size, *components), dtype=like.dtype, device=like.device)


def _learn(metadata: FunctionMetadata | None, found: FunctionMetadata) -> FunctionMetadata:
    if metadata is not None and metadata.key is None:
        vars(metadata).update(vars(found))
    return metadata or found


def jacobian(
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """Compute Jacobians by adjoints, with one backward pass for each component of an output.

    Args:
        function: A kernel, or a function of arrays and other values that returns one or several arrays.
        dim: The launch dimensions of a kernel.
        inputs: The arguments. Jacobians are computed for arrays with `requires_grad`.
        outputs: The further arguments of a kernel, which it writes to.
        input_output_mask: Pairs of an input and an output, by index or name. Default: all.
        device, max_blocks, block_dim: As for `wp.launch`.
        max_outputs_per_var: The number of rows to compute; others are NaN. Not positive: all.
        plot_jacobians: Whether to plot them with matplotlib.
        metadata: Receives the names, if it is empty.
        restore_inputs: Whether to restore the content of arrays that are inputs of a function.

    Returns:
        A dict from pairs of indices to arrays of shape (components of the output, elements of the input), with elements
        of the input's type.

    Raises:
        LaunchError: The arguments do not match, or a kernel has no backward pass (`enable_backward=False`).
    """
    probe = _Probe(
        function, dim, inputs, outputs, restore_inputs, device=device, max_blocks=max_blocks, block_dim=block_dim
    )
    found: Jacobians = {}
    with probe.restored():
        with Tape() as tape:
            results = probe.run()
        kernels = [function] if probe.is_kernel else [getattr(entry, "kernel", None) for entry in tape.launches]
        if any(isinstance(kernel, Kernel) and not kernel.enable_backward for kernel in kernels):
            raise LaunchError("Kernel must have backward pass enabled to compute Jacobians")
        known = _learn(metadata, probe.metadata(results))
        for i, o in probe.pairs(results, known, input_output_mask):
            into, out = probe.inputs[i], results[o]
            count = _numbers(out).size
            rows = np.full((count, _numbers(into).size), np.nan, _numbers(into).dtype)
            for row in range(min(count, max_outputs_per_var) if max_outputs_per_var > 0 else count):
                _zero([*probe.inputs, *results])
                seed = np.zeros(count, _numbers(out).dtype)
                seed[row] = 1
                given = zeros_like(out, requires_grad=False)
                given.assign(seed.reshape(out.layout.full_shape))
                tape.backward(grads={out: given})
                rows[row] = _numbers(into.grad)
                tape.zero()
            _zero([*probe.inputs, *results])
            found[i, o] = _matrix(rows, into)
    if plot_jacobians:
        jacobian_plot(found, known)
    return found


def _zero(values: Sequence[Any]) -> None:
    for a in values:
        if isinstance(a, array) and a.grad is not None:
            a.grad.zero_()


def jacobian_fd(
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """Compute Jacobians by central differences, with two runs for each component of an input.

    Args:
        function, dim, inputs, outputs, input_output_mask, restore_inputs: As for `jacobian`.
        device, max_blocks, block_dim: As for `wp.launch`.
        max_inputs_per_var: The number of columns to compute; others are NaN. Not positive: all.
        eps: The step, in both directions.
        plot_jacobians: Whether to plot them with matplotlib.
        metadata: Receives the names, if it is empty.

    Returns:
        The same as `jacobian`.

    Raises:
        LaunchError: The arguments do not match.
    """
    probe = _Probe(
        function, dim, inputs, outputs, restore_inputs, device=device, max_blocks=max_blocks, block_dim=block_dim
    )
    found: Jacobians = {}
    with probe.restored():
        results = probe.run()
        known = _learn(metadata, probe.metadata(results))
        for i, o in probe.pairs(results, known, input_output_mask):
            into = probe.inputs[i]
            probe.restore()
            begin, count = np.array(_numbers(into)), _numbers(into).size
            rows = np.full((_numbers(results[o]).size, count), np.nan, begin.dtype)
            for k in range(min(count, max_inputs_per_var) if max_inputs_per_var > 0 else count):
                ends = []
                for step in (-eps, eps):
                    probe.restore()
                    at = np.array(begin if restore_inputs or probe.is_kernel else _numbers(into))
                    at[k] = at[k] + np.asarray(step, at.dtype)
                    into.assign(at.reshape(into.layout.full_shape))
                    ends.append((at[k], np.array(_numbers(probe.run()[o]), np.float64)))
                (left, low), (right, high) = ends
                # The step that was made, after rounding.
                made = float(right) - float(left) if restore_inputs or probe.is_kernel else 2 * eps
                rows[:, k] = (high - low) / made
                if not restore_inputs and not probe.is_kernel:
                    into.assign(begin.reshape(into.layout.full_shape))
            found[i, o] = _matrix(rows, into)
    if plot_jacobians:
        jacobian_plot(found, known)
    return found


def gradcheck(
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
) -> bool:
    """Compare Jacobians by adjoints with those by finite differences.

    Args:
        function: A kernel, or a function, as for `jacobian`.
        dim: The launch dimensions of a kernel.
        inputs: The arguments.
        outputs: The further arguments of a kernel.
        eps: The step of the finite differences.
        atol: The allowed absolute error.
        rtol: The allowed error relative to the finite differences.
        raise_exception: Whether a disagreement is an error.
        input_output_mask: Pairs of an input and an output, by index or name. Default: all.
        device, max_blocks, block_dim: As for `wp.launch`.
        max_inputs_per_var: The number of components of an input to compare. Not positive: all.
        max_outputs_per_var: The number of components of an output to compare. Not positive: all.
        plot_relative_error: Whether to plot relative errors with matplotlib.
        plot_absolute_error: Whether to plot absolute errors with matplotlib.
        show_summary: Whether to print a table.
        restore_inputs: Whether to restore the content of arrays that are inputs of a function.

    Returns:
        True if all agree, and no adjoint is NaN.

    Raises:
        LaunchError: The arguments do not match; or the Jacobians disagree, and `raise_exception` is True.
    """
    known = FunctionMetadata()
    common: dict[str, Any] = {
        "input_output_mask": input_output_mask, "device": device, "max_blocks": max_blocks, "block_dim": block_dim,
        "metadata": known, "restore_inputs": restore_inputs,
    }  # fmt: skip
    by_adjoints = jacobian(function, dim, inputs, outputs, max_outputs_per_var=max_outputs_per_var, **common)
    by_steps = jacobian_fd(function, dim, inputs, outputs, max_inputs_per_var=max_inputs_per_var, eps=eps, **common)
    faults, lines = [], []
    errors: tuple[Jacobians, Jacobians] = ({}, {})
    for (i, o), steps in by_steps.items():
        into = [a.numpy().reshape(a.shape[0], -1) for a in (by_adjoints[i, o], steps)]
        rows = max_outputs_per_var if max_outputs_per_var > 0 else None
        columns = max_inputs_per_var if max_inputs_per_var > 0 else None
        x, y = (whole[:rows, :columns].astype(np.float64) for whole in into)
        pair = f"input {known.input_labels[i]}, output {known.output_labels[o]}"
        fault = ""
        if np.isnan(x).any():
            fault = "gradient contains NaN values"
        elif not np.allclose(x, y, atol=atol, rtol=rtol):
            fault = "finite difference and autodiff gradients do not match"
        faults += [f"{pair}: {fault}"] if fault else []
        lines.append(f"  {pair}: largest difference {np.abs(x - y).max(initial=0.0):.3e}, {fault or 'agree'}")
        absolute = np.abs(into[0].astype(np.float64) - into[1])
        for kept, error in zip(errors, (absolute / (np.abs(into[1]) + 1e-8), absolute), strict=True):
            kept[i, o] = array(error.astype(into[1].dtype))
    if show_summary:
        print(f"Gradient check of {known.key} {'failed' if faults else 'passed'}", *lines, sep="\n")
    for wanted, kind, kept in zip(
        (plot_relative_error, plot_absolute_error), ("relative", "absolute"), errors, strict=True
    ):
        if wanted:
            jacobian_plot(kept, known, title=f"{known.key} kernel Jacobian {kind} error")
    if faults and raise_exception:
        raise LaunchError(f"Gradient check failed for {known.key}, {faults[0]}")
    return not faults


def gradcheck_tape(
    tape: Tape,
    *,
    input_output_masks: Mapping[str, Mask] | None = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
    **options: Any,
) -> bool:
    """Compare, for each launch on a tape, Jacobians by adjoints with those by finite differences.

    Launches run again on the current content of their arrays, and restore it. Kernels without a backward pass are
    skipped. The arrays that a launch writes to are its outputs.

    Args:
        tape: The tape.
        input_output_masks: The mask of each kernel, by name.
        blacklist_kernels: Names of kernels to skip.
        whitelist_kernels: Names of the kernels to check. Default: all.
        reverse_launches: Whether to start with the last launch.
        skip_to_launch_index: The number of launches to skip at the start.
        options: Further keywords of `gradcheck`.

    Returns:
        True if all agree.

    Raises:
        LaunchError: They do not agree, and `raise_exception` is True.
    """
    good = True
    entries = tape.launches[::-1] if reverse_launches else tape.launches
    for entry in entries[skip_to_launch_index:]:
        kernel: Any = getattr(entry, "kernel", None)
        if not isinstance(kernel, Kernel) or not kernel.enable_backward:
            continue
        if kernel.name in (blacklist_kernels or ()) or kernel.name not in (whitelist_kernels or (kernel.name,)):
            continue
        launched: Any = entry
        mask = (input_output_masks or {}).get(kernel.name)
        good &= _launch_agrees(launched, mask, options)
    return good


def _launch_agrees(entry: Any, mask: Mask | None, options: Mapping[str, Any]) -> bool:
    values = list(entry.values)
    if len(values) != len(entry.kernel.signature):
        raise LaunchError(f"wp.autograd.gradcheck_tape: kernel '{entry.kernel.name}' has structs for parameters")
    first = min(entry.changed, default=len(values))
    geometry = {"dim": entry.dims, "block_dim": entry.block_dim}
    return gradcheck(
        entry.kernel, inputs=values[:first], outputs=values[first:], input_output_mask=mask, **geometry, **options
    )


def jacobian_plot(
    jacobians: Mapping[tuple[int, int], array],
    kernel: Any,
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Plot Jacobians as images with matplotlib, with a row for each output and a column for each input.

    Args:
        jacobians: The result of `jacobian` or `jacobian_fd`.
        kernel: Their kernel, or their metadata.
        inputs: The inputs of a kernel.
        show_plot: Whether to open a window.
        show_colorbar: Whether to show a colour bar.
        scale_colors_per_submatrix: Whether each image has its own range of colours.
        title: The title.
        colormap: The name of a matplotlib colormap.
        log_scale: Whether colours are logarithmic.

    Returns:
        The figure, or None if there are no Jacobians.

    Raises:
        LaunchError: `inputs` of a kernel are missing, or the metadata lacks an input or output.
    """
    if isinstance(kernel, Kernel):
        if inputs is None:
            raise LaunchError("wp.autograd.jacobian_plot: inputs must be provided for a kernel")
        names = [parameter.name for parameter in kernel.signature]
        known = FunctionMetadata(kernel.name, names[: len(inputs)], names[len(inputs) :])
    else:
        known = kernel
    if not jacobians:
        return None
    if any(i >= len(known.input_labels) or o >= len(known.output_labels) for i, o in jacobians):
        raise LaunchError(
            "wp.autograd.jacobian_plot: a Jacobian is of an input or output that the metadata does not name"
        )
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm, Normalize

    columns, rows = (sorted({pair[k] for pair in jacobians}) for k in (0, 1))
    shown = {pair: a.numpy().reshape(a.shape[0], -1).astype(np.float64) for pair, a in jacobians.items()}
    shown = {pair: np.abs(x) if log_scale else x for pair, x in shown.items()}
    scale: Callable[..., Any] = LogNorm if log_scale else Normalize

    def norm(parts: Sequence[np.ndarray]) -> Any:
        numbers = np.concatenate([part[np.isfinite(part) & ((part > 0) | (not log_scale))] for part in parts])
        return scale(numbers.min(), numbers.max()) if numbers.size else None

    figure, axes = plt.subplots(len(rows), len(columns), squeeze=False, layout="constrained")
    common = norm([*shown.values()])
    for (i, o), content in shown.items():
        place = axes[rows.index(o), columns.index(i)]
        own = norm([content]) if scale_colors_per_submatrix else common
        image = place.imshow(content, cmap=colormap, norm=own, aspect="auto", interpolation="none")
        place.set(xlabel=known.input_labels[i], ylabel=known.output_labels[o])
        if show_colorbar and scale_colors_per_submatrix:
            figure.colorbar(image, ax=place)
    if show_colorbar and not scale_colors_per_submatrix:
        figure.colorbar(image, ax=axes)
    figure.suptitle(title or f"{known.key or 'unknown'} kernel Jacobian")
    if show_plot:
        plt.show()
    return figure
