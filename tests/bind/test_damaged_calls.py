"""A custom call whose attributes are damaged is an error of JAX, or a launch that runs: never a crash."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_kernels import scale

import jwarp as wp
from jwarp.bind.targets import TARGET
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.program import program_of
from jwarp.config import config

X = np.arange(8, dtype=np.float32)
# As jwarp writes it: no formulas, dim, repeat, no batch, and operand, result, kind, batch axes of each parameter.
LAUNCH = [2, 0, 0, 8, 1, 1, 1, 1, 0, 3, 0, -1, 0, 0, 1, -1, 0, 0, -1, 0, 1, 0]
# Valid where they are counts of something that is repeated, and so large that it would never end.
ENDLESS = (4, 5, 6, 7)


def call(launch, fingerprint=None, program=None):
    made = lower_kernel(program_of(scale, config.settings).kernel, config.settings)
    run = jax.ffi.ffi_call(TARGET, [jax.ShapeDtypeStruct((8,), jnp.float32)])
    attributes = {
        "fingerprint": fingerprint or made.fingerprint,
        "program": made.program if program is None else program,
        "launch": np.array(launch, np.int64),
    }
    return np.asarray(jax.jit(lambda x, k: run(x, k, **attributes))(X, np.float32(2.0))[0])


def test_the_numbers_are_those_of_a_lowered_call():
    text = jax.jit(wp.jax_kernel(scale)).lower(X, np.float32(2.0)).as_text()
    assert f"launch = dense<{LAUNCH}>" in text
    np.testing.assert_array_equal(call(LAUNCH), 2.0 * X)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_damaged_launches(data):
    launch = list(LAUNCH)
    at = data.draw(st.integers(0, len(launch) - 1))
    change = data.draw(st.sampled_from(["set", "insert", "delete", "cut"]))
    value = data.draw(st.sampled_from([-(2**63), -(2**31), -1, 0, 1, 2, 3, 4, 9, 31, 2**31 - 1, 2**62, 2**63 - 1]))
    if change == "set":
        if at in ENDLESS and value > 9:
            value = 9
        launch[at] = value
    elif change == "insert":
        launch.insert(at, min(value, 9))
    elif change == "delete":
        del launch[at]
    else:
        del launch[at:]
    try:
        y = call(launch)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        assert "jwarp: " in str(error)
    else:
        # Another number of threads, or of runs of each, is a launch too.
        assert all(value in (0.0, 2.0 * x) for value, x in zip(y, X, strict=True))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damaged_programs_that_claim_another_fingerprint(data):
    good = lower_kernel(program_of(scale, config.settings).kernel, config.settings).program
    at = data.draw(st.integers(0, len(good) - 1))
    program = good[:at] + data.draw(st.binary(max_size=8)) + good[at + data.draw(st.integers(0, 8)) :]
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="damaged|version|fingerprint|not kernel data"):
        call(LAUNCH, fingerprint="f" * 32, program=program)
