"""Errors of `wp.functionalize` name attributes and lines."""

import re
from collections import deque
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions_of_launches import squares

import jwarp as wp


class Held:
    def __init__(self, **parts):
        self.__dict__.update(parts)


def test_reading_while_tracing_names_the_array_and_the_line():
    s = Held(e=wp.ones(3, dtype=float))

    def f(s):
        if s.e.numpy()[0] > 0:
            s.e.zero_()

    reads = [f, lambda s: int(s.e), lambda s: float(s.e), lambda s: np.asarray(s.e), lambda s: s.e.list()]
    for read in (*reads, lambda s: print(s.e), lambda s: wp.launch(squares, s.e.numpy()[0], inputs=[s.e, s.e])):
        line = read.__code__.co_firstlineno + (read is f)
        said = rf"'s.e' is read at .*test_functionalize_errors.py:{line}, and stands for a value that JAX traces"
        with pytest.raises(wp.LaunchError, match=said):
            wp.functionalize(read, returns="s")(s)


def test_numbers_that_jax_traces_are_named_where_python_needs_them():
    def chosen(s, dt: float):
        if dt > 0.0:
            s.e.zero_()

    def counted(s, dt: float):
        wp.launch(squares, int(dt), inputs=[s.e, s.e])

    def looked_at(s, dt: float):
        if wp.to_jax(s.e)[0] > 0.0:
            s.e.zero_()

    s = Held(e=wp.ones(3, dtype=float))
    for f, name in ((chosen, "dt"), (counted, "dt"), (looked_at, "s.e")):
        f_jax = wp.functionalize(f, returns="s")
        said = rf"'{name}' is read at .*test_functionalize_errors.py:{f.__code__.co_firstlineno + 1}, and JAX traces it"
        for call in (f_jax, jax.jit(lambda dt, f_jax=f_jax: f_jax(s, dt).e)):
            with pytest.raises(wp.LaunchError, match=f"{said}(?s:.)*static_argnames"):
                call(*((s, 1.0) if call is f_jax else (1.0,)))
    assert not wp.functionalize(chosen, returns="s", static_argnames="dt")(s, 1.0).e.numpy().any()


def test_writing_to_an_array_of_nobody_names_the_line():
    outside = wp.ones(3, dtype=float)

    def f(s):
        outside.zero_()

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(wp.LaunchError, match=rf"made at .*:{line - 3} is written at .*_errors.py:{line} while JAX"):
        wp.functionalize(f, returns="s")(Held(e=wp.ones(3, dtype=float)))


class Exchanging:
    def __init__(self):
        self.a, self.b, self.count, self.made = wp.ones(3, dtype=float), wp.zeros(3, dtype=float), 0, None
        self.least = float("nan")

    def exchange(self, x: wp.array[float]):
        self.a, self.b = self.b, self.a
        x.assign(self.a)

    def keep(self, x: wp.array[float]):
        self.b = wp.clone(x)

    def number(self, x: wp.array[float]):
        self.count += 1

    def look_up(self, x: wp.array[float]):
        self.made = self.made or {"kernel": squares}
        self.least = float("nan")
        wp.launch(self.made["kernel"], 3, inputs=[x, x])


def test_methods_do_not_bind_attributes_of_their_object_anew():
    x = jnp.full(3, 3.0)
    for name, attribute in (("exchange", "a"), ("keep", "b"), ("number", "count")):
        method = getattr(Exchanging(), name)
        line = method.__code__.co_firstlineno
        said = rf"{name} binds 'self.{attribute}' anew, in .*_errors.py:{line}, .*once(?s:.)*\(Exchanging.{name}\)"
        with pytest.raises(wp.LaunchError, match=said):
            wp.functionalize(method, returns="x")(x)
    assert wp.functionalize(Exchanging().look_up, returns="x")(x).tolist() == [9, 9, 9]
    changed = wp.functionalize(Exchanging.exchange)(Exchanging(), x)[1]
    assert changed["self"].b.numpy().all() and not changed["x"].any()


def test_arrays_are_no_numbers():
    for number in (int, float):
        with pytest.raises(wp.KernelTypeError, match=rf"(?s){number.__name__}\(\) takes no wp.array.*a.numpy\(\)\[0\]"):
            number(wp.ones(1, dtype=float))


class Queue(deque):
    """An object of a class written in C, with attributes."""


def test_arrays_that_would_be_hidden_are_refused_by_attribute():
    x, queue = wp.ones(3, dtype=float), Queue()
    queue.last = x
    element = "an element of 's.bag'"
    bags = [({x}, element), (deque([x]), element), (frozenset([x]), element), (queue, "'s.bag.last'")]
    for hidden, name in bags:
        kind = type(hidden).__name__
        with pytest.raises(
            wp.KernelTypeError, match=f"{name} is an array in an object of {kind}, which cannot be taken"
        ):
            wp.functionalize(lambda s: None, returns="s")(Held(bag=hidden))
    # What is in none of them is part of the program.
    same = wp.functionalize(lambda s: s.x.zero_(), returns="s")(Held(x=x, bag={1}, f=partial(print), q=Queue()))
    assert same.bag == {1} and not same.x.numpy().any()
    for kind in (np.ndarray, int, partial, deque, Queue, 3):
        with pytest.raises(wp.KernelTypeError, match="is no class of objects with attributes"):
            wp.register_pytree(kind)


class Pair(list):
    def __init__(self, first, second):
        super().__init__([first, second])


class Ends(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


@pytest.mark.parametrize("kind", [Pair, Ends])
def test_lists_and_tuples_are_made_again_without_their_init(kind):
    made = wp.functionalize(lambda s: s.ends[1].zero_(), returns="s")(
        Held(ends=kind(wp.ones(3, dtype=float), wp.ones(2, dtype=float)))
    )
    assert type(made.ends) is kind and [x.numpy().sum() for x in made.ends] == [3, 0]


def test_what_is_bound_anew_is_named():
    def bound(a, s):
        s.inner.x = wp.zeros(3, dtype=float)

    def added(a, s):
        s.inner.y = 3

    def removed(a, s):
        del s.inner.d["n"]

    def counted(a, s):
        s.inner.d["n"] += 1

    for f, name in (
        (bound, "s.inner.x"),
        (added, "s.inner.y"),
        (removed, "s.inner.d['n']"),
        (counted, "s.inner.d['n']"),
    ):
        s = Held(inner=Held(x=wp.ones(3, dtype=float), d={"n": 1}))
        said = re.escape(
            f"{f.__name__} changes '{name}', bound anew in {__file__}:{f.__code__.co_firstlineno}, and only"
        )
        with pytest.raises(wp.LaunchError, match=said):
            wp.functionalize(f, returns="a")(wp.ones(1, dtype=float), s)


def test_jax_arrays_that_nothing_says_to_change_are_refused():
    def doubled(x, y):
        wp.launch(squares, 3, inputs=[x, y])

    x = jnp.ones(3)
    said = r"doubled cannot change '{}', which is a JAX array.*(?s:.)*annotate the parameter \({}: wp.array\[...\]\)"
    with pytest.raises(wp.LaunchError, match=said.format("y", "y")):
        wp.functionalize(doubled, returns="y")(x, x)
    with pytest.raises(wp.LaunchError, match=said.format("x", "x")):
        wp.functionalize(doubled)(x, x)
    assert wp.functionalize(lambda x: x + 1)(x)[0].tolist() == [2, 2, 2]


def test_jax_arrays_that_do_not_fit_their_annotation_are_refused():
    def filled(x: wp.array[wp.vec2]):
        x.fill_(1.0)

    for x, shown in ((jnp.ones(3), r"float32\[3\]"), (jnp.ones((4, 2), int), r"int32\[4, 2\]")):
        with pytest.raises(wp.KernelTypeError, match=rf"parameter 'x': expected array\[vec2\], got {shown}"):
            wp.functionalize(filled, returns="x")(x)


def test_types_of_64_bits_that_are_off_are_refused():
    def filled(x: wp.array[wp.float64]):
        x.fill_(1.0)

    x = np.random.default_rng(0).normal(size=3)
    with jax.enable_x64(False), pytest.raises(wp.KernelTypeError, match="'x'.*64-bit types are off(?s:.)*turn them on"):
        wp.functionalize(filled, returns="x")(x)
