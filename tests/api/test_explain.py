"""`wp.explain` says what the code does: its rows against LLVM's text, its conditions against launches."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu.access.shared_functions import emit
from jwarp.compiler.cpu import lower_kernel
from jwarp.config import config


@wp.func
def neighbours(a: wp.array[float], i: int):
    return a[i] + a[i + 1]


@wp.kernel
def mixed(
    x: wp.array[float],
    v: wp.array[wp.vec3],
    index: wp.array[int],
    n: int,
    y: wp.array[float],
    bins: wp.array[float],
    w: wp.array[wp.vec3],
    z: wp.array[float],
):
    i = wp.tid()
    y[i] = x[i]
    w[i] = 2.0 * v[i]
    z[0] = x[n]
    wp.atomic_add(bins, index[i], x[index[i]])
    y[i] = y[i] + neighbours(x, i)
    z[1] = float(i)


@wp.kernel
def relax(x: wp.array[float], rate: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i] + rate * (x[i - 1] - 2.0 * x[i] + x[i + 1])


@wp.kernel
def shifted(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + n]


@wp.kernel
def corner(y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = float(i + j)


THREADS = 100


def launch_mixed(x, v, index, n):
    return wp.launch(mixed, THREADS, [x, v, index, n], [THREADS, 7, THREADS, 5])


def some_arguments(n=3):
    random = np.random.default_rng(5)
    x = jnp.asarray(random.normal(size=THREADS + 1), jnp.float32)
    v = jnp.asarray(random.normal(size=(THREADS, 3)), jnp.float32)
    return x, v, jnp.asarray(random.integers(0, 7, THREADS), jnp.int32), n


def by_access(explanation):
    return {(row.kind, row.text.split(" =")[0]): row for row in explanation.rows}


def test_how_accesses_are_made():
    rows = by_access(wp.explain(launch_mixed)(*some_arguments()))
    how = {key: row.how for key, row in rows.items()}
    assert how["load", "x[i]"] == ("vector load",)
    assert how["store", "y[i]"] == ("vector store",)
    assert how["load", "v[i]"][0] == "wide load + shuffle"
    assert how["store", "w[i]"][0] == "shuffle + wide store"
    assert how["load", "x[n]"] == ("scalar load",)
    assert how["store", "z[0]"] == ("scalar store",)
    assert how["store", "z[1]"] == ("scatter",)
    # Where vectors are wide enough, a short array may be in registers.
    assert how["load", "x[index[i]]"] in (("gather",), ("row in registers", "gather"))
    assert how["load", "a[i + 1]"] == ("vector load",)
    assert how["atomic_add", "wp.atomic_add(bins, index[i], x[index[i]])"] == ("plain additions",)
    assert rows["load", "v[i]"].count == rows["store", "w[i]"].count == 3
    assert rows["load", "a[i + 1]"].array == "x"


def test_what_keeps_accesses_inside():
    rows = by_access(wp.explain(launch_mixed)(*some_arguments()))
    safe = {key: (row.proof, row.condition, row.holds, row.tested) for key, row in rows.items()}
    assert safe["load", "x[i]"] == ("launch", "dim[0] <= x.shape[0]", True, False)
    assert safe["load", "a[i + 1]"] == ("launch", "dim[0] < x.shape[0]", True, False)
    assert safe["load", "v[i]"] == ("launch", "dim[0] <= v.shape[0]", True, False)
    assert safe["load", "x[n]"] == ("launch", "0 <= n and n < x.shape[0]", True, False)
    assert safe["store", "z[1]"] == ("launch", "2 <= z.shape[0]", True, False)
    assert safe["load", "x[index[i]]"] == ("checked", "", False, True)


def test_rows_name_their_lines():
    source = by_access(wp.explain(wp.jax_kernel(relax))(jnp.ones(9), 0.5))
    row = source["load", "x[i - 1]"]
    assert row.source == "y[i] = x[i] + rate * (x[i - 1] - 2.0 * x[i] + x[i + 1])"
    assert (row.proof, row.holds, row.tested) == ("always", True, False)
    assert row.file == "test_explain.py"
    with open(__file__) as file:
        line = file.read().splitlines()[row.line - 1]
    assert line.strip() == row.source and line[row.column :].startswith("x[i - 1]")


def test_the_table():
    text = str(wp.explain(wp.jax_kernel(relax))(jnp.ones(9), 0.5))
    assert re.search(r"kernel relax \(test_explain.py:\d+\), 9 threads", text)
    assert re.search(r"fast: (compiled|read from disk) in \d+\.\d ms, \d+\.\d kB", text)
    assert "zeros in y: none needed, every element is stored to" in text
    assert re.search(
        r"\d+ \| y\[i\] = x\[i\]\n +store y +vector store +proven at launch: dim\[0\] <= y.shape\[0\]", text
    )
    assert re.search(r"load x\[i - 1\] +vector load +proven\n", text)


@pytest.mark.parametrize(
    "launch",
    [launch_mixed, lambda x, *rest: wp.jax_kernel(relax)(x, 0.5), lambda x, v, i, n: wp.jax_kernel(shifted)(x, n)],
)
def test_the_code_has_the_instructions_that_rows_name(launch):
    """Of an instruction that no row names there is none in LLVM's text, and of others there is one."""
    explained = wp.explain(launch)(*some_arguments())
    (found,) = explained.launches
    kernel = {"mixed": mixed, "relax": relax, "shifted": shifted}[found.kernel]
    lowered = lower_kernel(kernel.ir(config.settings), config.settings)
    generated = lowered.generate(found.runs or "fast", lowered.options)
    text = "\n".join([generated.text, *(emit(load, lowered.options.target) for load in generated.library)])
    used = {how for row in explained.rows for how in row.how}
    assert ("gather" in used) == bool(re.search(r"call .*@llvm\.masked\.gather", text))
    assert ("scatter" in used) == bool(re.search(r"call void @llvm\.masked\.scatter", text))
    assert ("atomic" in used) == ("atomicrmw" in text)


def test_a_condition_that_does_not_hold_means_the_checked_version():
    (good,) = wp.explain(wp.jax_kernel(shifted, launch_dims=8))(jnp.ones(12), 4).launches
    (bad,) = wp.explain(wp.jax_kernel(shifted, launch_dims=8))(jnp.ones(12), 5).launches
    assert (good.runs, good.missing) == ("fast", "")
    assert (bad.runs, bad.missing) == ("checked", "dim[0] + n <= x.shape[0]")
    assert [v.name for v in bad.versions] == ["fast", "checked"]
    load = next(row for row in bad.rows if row.kind == "load")
    assert (load.holds, load.tested, load.how) == (False, True, ("vector load", "gather"))
    store = next(row for row in bad.rows if row.kind == "store")
    assert (store.holds, store.tested) == (True, True)
    assert "checked, as this does not hold: 0 <= n and dim[0] + n <= x.shape[0]" in str(bad)


def test_numbers_known_only_when_the_kernel_runs():
    fn = wp.jax_kernel(shifted, launch_dims=8)
    unknown = [
        wp.explain(lambda x, n: fn(x, n + 1))(jnp.ones(12), jnp.int32(3)),
        wp.explain(jax.vmap(fn, in_axes=(None, 0)))(jnp.ones(12), jnp.arange(3)),
        wp.explain(fn)(jnp.ones(12), jax.ShapeDtypeStruct((), jnp.int32)),
    ]
    for explanation in unknown:
        (launch,) = explanation.launches
        load = next(row for row in launch.rows if row.kind == "load")
        assert launch.runs is None and load.holds is None
        assert "decided when it runs" in str(launch)
    for known in (fn, jax.jit(fn)):
        (launch,) = wp.explain(known)(jnp.ones(12), jnp.int32(5)).launches
        assert launch.runs == "checked"


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_where_zeros_come_from():
    (launch,) = wp.explain(launch_mixed)(*some_arguments()).launches
    assert launch.zeros == {"y": "by threads", "bins": "filled", "w": "stored", "z": "filled"}

    assert wp.explain(wp.jax_kernel(relax))(jnp.ones(9), 0.5).launches[0].zeros == {"y": "stored"}

    @wp.kernel
    def halves(y: wp.array[float]):
        i = wp.tid()
        if i % 2 == 0:
            y[i] = 1.0

    fn = wp.jax_kernel(halves, launch_dims=6)
    assert wp.explain(fn)().launches[0].zeros == {"y": "by threads"}
    assert wp.explain(lambda: fn(output_dims=7))().launches[0].zeros == {"y": "filled"}
    assert wp.explain(lambda: wp.launch(halves, (6, 2), [], [6]))().launches[0].zeros == {"y": "filled"}
    (in_out,) = wp.explain(lambda y: wp.launch(halves, 6, [], [y]))(jnp.ones(6)).launches
    assert in_out.zeros == {}


def test_launches_are_found_wherever_they_are():
    relaxed = wp.jax_kernel(relax)

    @jax.custom_vjp
    def custom(x):
        return relaxed(x, 0.1)[0]

    custom.defvjp(lambda x: (custom(x), None), lambda _, g: (g,))

    def steps(x):
        x = jax.lax.cond(x[0] > 0.0, custom, lambda x: 2.0 * x, x)
        (x,) = jax.vmap(relaxed, in_axes=(None, 0))(x, jnp.arange(3.0))
        return jax.lax.scan(lambda c, _: (relaxed(relaxed(c, 0.5)[0], 0.5)[0], None), x[0], None, length=4)[0]

    explanation = wp.explain(jax.jit(steps))(jax.ShapeDtypeStruct((9,), jnp.float32))
    assert [(e.kernel, e.batch, e.count) for e in explanation.launches] == [("relax", (), 3), ("relax", (3,), 1)]
    assert len(explanation.rows) == sum(len(e.rows) for e in explanation.launches)


def test_in_a_traced_function():
    def fn(x, n):
        assert wp.explain(wp.jax_kernel(shifted, launch_dims=8))(x, n).launches[0].runs is None
        return x

    jax.jit(fn)(jnp.ones(12), 3)


def test_unchecked_accesses_are_shouted():
    with config(bounds="unchecked"):
        explanation = wp.explain(launch_mixed)(*some_arguments())
    assert {row.proof for row in explanation.rows} == {"unchecked"}
    assert "UNCHECKED" in str(explanation)


def test_short_rows_are_told():
    (short,) = wp.explain(lambda: wp.launch(corner, (9, 1), [], [(9, 1)]))().launches
    (long,) = wp.explain(lambda: wp.launch(corner, (1, 90), [], [(1, 90)]))().launches
    assert (short.lanes, long.lanes) == (1, long.width)
    assert ("no more than 1 of them" in str(short)) == (short.width > 1)
    assert "no more than" not in str(long)


def test_a_function_without_launches():
    explanation = wp.explain(jnp.sin)(1.0)
    assert explanation.rows == () and str(explanation) == "no launch"


def test_nothing_runs():
    calls = []

    def fn(x):
        jax.debug.callback(calls.append, x)
        return wp.jax_kernel(relax)(x, 0.5)

    wp.explain(fn)(jnp.ones(4))
    jax.effects_barrier()
    assert calls == []


@pytest.mark.parametrize("wrong", [relax, 3, None])
def test_what_is_no_function(wrong):
    with pytest.raises(wp.KernelTypeError, match="wp.explain: expected a function of JAX, got"):
        wp.explain(wrong)


def test_compilations_are_announced():
    @wp.kernel
    def fresh(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * 1.2345

    with wp.record_compiles() as events:
        (launch,) = wp.explain(wp.jax_kernel(fresh))(jnp.ones(4)).launches
    (event,) = events
    assert event.source in ("compiled", "disk")
    (version,) = launch.versions
    assert (version.name, version.seconds, version.bytes) == ("fast", event.seconds, event.bytes)
    again = wp.explain(wp.jax_kernel(fresh))(jnp.ones(4)).launches[0]
    assert again.versions == launch.versions


@wp.kernel
def own_table(x: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    t = wp.zeros(shape=4, dtype=float)
    t[x[i]] = 2.0
    y[i] = t[1]


def test_local_arrays_are_explained():
    fn = wp.jax_kernel(own_table)
    rows = wp.explain(fn)(jnp.arange(8)).rows
    own = {row.kind: (row.how, row.safe) for row in rows if row.array == "t"}
    assert own == {"store": (("scatter",), "checked"), "load": (("local vector load",), "proven")}


@wp.kernel
def decayed(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = wp.sin(v) * x[i]
        y[i] = y[i] * v


def test_adjoints_say_what_they_keep():
    start = jnp.linspace(0.5, 1.5, 40)
    last = lambda x: wp.launch(decayed, 40, {"x": x, "n": 8}, {"y": start})["y"].sum()  # noqa: E731
    forward, adjoint = wp.explain(jax.value_and_grad(last))(start).launches
    assert (forward.variant, adjoint.variant) == ("forward", "adjoint(x)")
    assert list(adjoint.taped.values()) == [4] and adjoint.undone == ("y",)
    assert "decayed, adjoint(x)" in str(adjoint) and "each trip keeps 4 bytes" in str(adjoint)
    assert any(row.array == "adj_x" for row in adjoint.rows)
