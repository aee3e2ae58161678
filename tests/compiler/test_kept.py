"""Derivatives and analyses of programs are on disk: a kernel of the same content derives and analyses nothing."""

import dataclasses
import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.compiler import derivation_cache, program, write_conflicts
from jwarp.compiler import derive as deriving
from jwarp.compiler.derive import derive, in_known_order, rounding_as
from jwarp.compiler.derived import Variant
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.ir.nodes import KnownKernel
from jwarp.ir.printing import format_kernel
from jwarp.launching.geometry import Geometry
from jwarp.store import Store

# A decomposition, which is written otherwise for derivatives; an author's gradient, which forward mode refuses; a
# counter that stores depend on; a stencil; stores that may meet; a long loop with a tape; an extremum, whose bits a
# derivative compares.
TEXT = """
import jwarp as wp

@wp.func
def squared(a: float):
    return a * a

@wp.func_grad(squared)
def adj_squared(a: float, adj: float):
    wp.adjoint[a] += FACTOR * a * adj

@wp.kernel
def decomposed(x: wp.array[wp.mat33], y: wp.array[wp.vec3]):
    i = wp.tid()
    q, d = wp.eig3(x[i])
    y[i] = q * wp.vec3(wp.sin(d[0]), 2.0, d[2])

@wp.kernel
def authored(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = squared(x[i])

@wp.kernel
def counted(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        y[wp.atomic_add(n, 0, 1)] = x[i] * x[i]

@wp.kernel
def stencil(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i + 1]

@wp.kernel
def meeting(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i // 2] = x[i] * x[i]

@wp.kernel
def agreeing(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    for k in range(4):
        y[at[i] + k] = x[at[i]] * y[at[i]]

@wp.kernel
def looped(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    a = x[i * 100000]
    for k in range(n):
        a = wp.sin(a) * x[i]
    y[i] = a

@wp.kernel
def greatest(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i] * 3.0)
"""
KERNELS = ("decomposed", "authored", "counted", "stencil", "meeting", "agreeing", "looped", "greatest")


@pytest.fixture
def load(tmp_path):
    """Gives a kernel of the file, a new one each time, with a cache of its own on disk."""

    def loaded(name, folder="first", text=TEXT, **values):
        path = tmp_path / folder / "kept_kernels.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("kept_kernels", path)
        module = importlib.util.module_from_spec(spec)
        vars(module).update({"FACTOR": 2.0, **values})
        spec.loader.exec_module(module)
        return getattr(module, name)

    with config(cache_dir=str(tmp_path / "cache")):
        yield loaded


@pytest.fixture
def nothing_is_made(monkeypatch):
    """From when it is called, deriving and analysing anything is an error."""

    def forbid():
        for module, names in (
            (deriving, ("_derive", "run", "jvp", "vjp")),
            (write_conflicts, ("conflicting_stores", "ambiguity", "reaches", "stencils", "prove")),
            (program, ("run", "counters")),
        ):
            for name in names:
                monkeypatch.setattr(module, name, lambda *args, name=name, **named: pytest.fail(f"{name} ran"))

    return forbid


def told(kernel):
    """All that is asked about a kernel's derivatives, as texts."""
    made = program_of(kernel, config.settings)
    count, last = len(made.params), len(made.params) - 1
    extents = tuple((8,) * p.type.ndim if p.is_array else None for p in made.params)
    geometry, large = Geometry((8, 1, 1, 1)), Geometry((1 << 20, 1, 1, 1))
    found = [format_kernel(made.kernel), made.fingerprint, made.written, sorted(made.counters), made.lasts]
    found += [write_conflicts.gatherable(made, geometry, extents, {}), write_conflicts.depends_on_integers(made)]
    found += [write_conflicts.may_coincide(made, g) for g in (geometry, large)]
    found += [write_conflicts.write_conflicts(made, repeated=r) for r in (False, True)]
    gathered = write_conflicts.gatherable(made, geometry, extents, {})
    variants = [
        Variant("adjoint", (0,), (last,), fresh=(last,)),
        Variant("adjoint", (0,), (last,), fresh=(last,), gathered=gathered, gatherable=gathered, for_gpu=True),
        Variant("tangent", (last,), (0,), fresh=(last,)),
    ]
    ran = in_known_order(made, variants)
    found += [format_kernel(ran.kernel), count]
    for variant in variants:
        try:
            derived = derive(ran, variant)
        except wp.NotDifferentiableError as error:
            found.append(str(error))
            continue
        own = derived.program
        on_gpu = own.on_gpu if own.on_gpu is None or isinstance(own.on_gpu, Exception) else format_kernel(own.on_gpu)
        found += [format_kernel(own.kernel), own.fingerprint, own.span, str(on_gpu)]
        found += [derived.feeds, derived.same, derived.gathered, derived.sources]
        found += [rounding_as(ran, derived.sources).fingerprint]
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_a_second_kernel_of_the_same_content_derives_nothing(load, nothing_is_made, name):
    first = told(load(name))
    nothing_is_made()
    assert told(load(name)) == first


def test_what_is_kept_is_not_read_before_it_is_looked_at(load, nothing_is_made):
    variant = Variant("adjoint", (0,), (1,))
    derive(program_of(load("decomposed"), config.settings), variant)
    nothing_is_made()
    found = derive(program_of(load("decomposed"), config.settings), variant).program
    for kernel in (found.kernel, program_of(load("decomposed"), config.settings).kernel):
        assert isinstance(kernel, KnownKernel) and not hasattr(kernel, "_content")


def test_gradients_have_the_same_bits(load, nothing_is_made):
    rng = np.random.default_rng(3)
    x = jnp.asarray(rng.normal(size=8), jnp.float32)

    def gradients():
        launches = [wp.jax_kernel(load(name)) for name in ("authored", "stencil")]
        return [np.asarray(jax.grad(lambda x, f=f: (f(x)[0] ** 2).sum())(x)) for f in launches]

    first = gradients()
    np.testing.assert_allclose(first[0], 4 * np.asarray(x) ** 3, rtol=1e-6)
    nothing_is_made()
    for found, known in zip(gradients(), first, strict=True):
        np.testing.assert_array_equal(found, known)


def test_damaged_and_strange_entries_are_made_anew(load, tmp_path, monkeypatch):
    first = told(load("authored"))
    for damage in (lambda data: data[: len(data) // 2], lambda data: data[:-3] + b"abc", lambda data: b""):
        for path in Path(tmp_path, "cache").iterdir():
            path.write_bytes(damage(path.read_bytes()))
        assert told(load("authored")) == first
    # Whole, but not what is looked for.
    for content in (b"", b"{", b"[3, 4", b"\xff\xfe", b"null\n\n"):
        monkeypatch.setattr(Store, "load", lambda self, key, content=content: content)
        assert told(load("authored")) == first


def test_files_may_move(load, nothing_is_made):
    """Places in files that have moved are shown with the new paths."""
    first = told(load("authored"))
    nothing_is_made()
    kernel = load("authored", "second")
    moved = told(kernel)
    assert [str(x).replace("/second/", "/first/") for x in moved] == list(map(str, first))
    refusal = next(x for x in moved if isinstance(x, str) and "wp.func_grad" in x)
    places = {n.span.file for n in kernel.ir().body.nodes} | {g.kernel.span.file for g in kernel.ir().gradients}
    assert places == {kernel.span.file} and kernel.span.file in refusal and "/second/" in kernel.span.file


def origin(kernel, **settings):
    return program_of(kernel, dataclasses.replace(config.settings, **settings)).cache.origin


def test_the_origin_counts_all_that_a_program_is_made_from(load, monkeypatch):
    known = origin(load("authored"))
    assert known and known == origin(load("authored")) == origin(load("authored", "second"))
    others = {
        "author's gradient": origin(load("authored", FACTOR=3.0)),
        "called function": origin(load("authored", text=TEXT.replace("return a * a", "return a * a * a"))),
        "another line": origin(load("authored", text="\n" + TEXT)),  # which errors name
        "kernel": origin(load("stencil")),
        "debug": origin(load("authored"), debug=True),
        "bounds": origin(load("authored"), bounds="error"),
        "fast_math": origin(load("authored"), fast_math=True),
        "max_unroll": origin(load("authored"), max_unroll=3),
        "deterministic": origin(load("authored"), deterministic=wp.DeterministicMode.RUN_TO_RUN),
    }
    monkeypatch.setattr(derivation_cache, "sources", lambda: "another version")
    others["version"] = origin(load("authored"))
    assert len({known, *others.values()}) == len(others) + 1
    monkeypatch.setattr(derivation_cache, "sources", lambda: None)
    assert origin(load("authored")) == ""  # of a version that cannot be told, nothing is kept
