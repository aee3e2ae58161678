"""Forward mode where only some results are used."""

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp
from jwarp.bind import derivatives
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import config


@wp.kernel
def pair(x: wp.array[float], y: wp.array[float], a: wp.array[float], b: wp.array[float]):
    i = wp.tid()
    a[i] = wp.sin(x[i])
    if y[i] > 0.5:
        b[i] = wp.cos(x[i]) * y[i]


def test_a_result_that_nothing_uses_needs_no_operands():
    x, y, dx = np.random.default_rng(2).uniform(0.1, 1.0, (3, 9)).astype(np.float32)

    def both(x):
        return wp.launch(pair, 9, [x, y], [9, 9])

    for k, slope in enumerate((np.cos(x), np.where(y > 0.5, -np.sin(x) * y, 0.0))):
        run = jax.jit(lambda dx, k=k: jax.linearize(both, jnp.asarray(x))[1](dx)[k])
        np.testing.assert_allclose(run(dx), slope * dx, rtol=1e-5, atol=1e-6)
        tangent = jax.jit(lambda x, dx, k=k: jax.jvp(lambda x: both(x)[k], (x,), (dx,))[1])
        np.testing.assert_allclose(tangent(x, dx), slope * dx, rtol=1e-5, atol=1e-6)


@wp.kernel
def scaled(x: wp.array[float], k: wp.array[float], y: wp.array[float], unread: wp.array[float]):
    i = wp.tid()
    y[i] = k[i] * x[i]


@wp.kernel
def lowest(x: wp.array[float], y: wp.array[float]):
    wp.atomic_min(y, 0, x[wp.tid()] * 2.0)


def test_what_derivatives_read_is_known_where_a_tangent_is_not_derived(monkeypatch):
    asked = []
    monkeypatch.setattr(derivatives, "derive", lambda program, face: asked.append(face.kind) or derive(program, face))
    cases = (
        (pair, (0, 1), (2, 3), (2, 3)),  # the adjoint reads both inputs: a tangent can read no more
        (pair, (0,), (2,), (2, 3)),
        (scaled, (0,), (2,), (2,)),  # neither reads x
        (scaled, (0, 1), (2,), (2,)),
        (scaled, (0, 1), (2,), ()),  # y may keep what it was
        (lowest, (0,), (1,), ()),  # both ask what the launch left
    )
    skipped = []
    for kernel, given, wanted, fresh in cases:
        program, variant = program_of(kernel, config.with_values()), Variant("tangent", wanted, given, fresh=fresh)
        every = {source for face in derivatives._faces(variant) for source in derive(program, face).sources}
        asked.clear()
        found = derivatives._read(program, variant)
        assert {s for s in every if s.kind != "given"} == {s for s in found if s.kind != "given"}
        skipped.append("tangent" not in asked)
    assert skipped == [True, False, False, True, False, False]
