"""Options of kernels and modules: those that change what a kernel means are followed, the others of Warp accepted."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


def squared(x: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    total = float(0.0)
    for k in range(12):
        total += x[i] * x[i] * float(k)
    r[i] = total


@pytest.fixture
def module_options():
    before = wp.get_module_options()
    yield
    wp.set_module_options({name: value for name, value in before.items() if value is not None})


def gradient(kernel):
    return jax.grad(lambda x: wp.jax_kernel(kernel)(x)[0].sum())(jnp.arange(3.0))


def loops(kernel):
    return str(wp.inspect(kernel, "ir")).count("for %")


def test_a_kernel_follows_its_own_options_and_those_of_its_module(module_options):
    plain, own = wp.kernel(squared), wp.kernel(squared, enable_backward=True)
    apart = wp.kernel(module="unique", module_options={"max_unroll": 3, "enable_backward": False})(squared)
    other = wp.kernel(module="another")(squared)
    wp.set_module_options({"enable_backward": False, "max_unroll": 2, "lineinfo": True})
    wp.set_module_options({"max_unroll": 1}, module="another")
    assert wp.get_module_options()["max_unroll"] == 2
    assert wp.get_module_options(sys.modules[__name__])["lineinfo"] is True
    assert [k.enable_backward for k in (plain, own, apart, other)] == [False, True, False, True]
    with pytest.raises(wp.NotDifferentiableError):
        gradient(plain)
    with pytest.raises(wp.NotDifferentiableError):
        gradient(apart)
    np.testing.assert_allclose(gradient(other), 2 * 66 * np.arange(3.0))
    assert [loops(k) for k in (plain, apart, other, wp.kernel(squared, module="third"))] == [1, 1, 1, 0]


@pytest.mark.parametrize("to_given", [np.asarray, jnp.asarray])
def test_options_that_are_set_after_a_launch_count_for_the_next(module_options, to_given):
    kernel, x = wp.kernel(squared), to_given(np.ones(3, np.float32))
    found = []
    with wp.config(cache_dir=""):
        for trips in (2, 2, 12, 12):
            wp.set_module_options({"max_unroll": trips})
            with wp.record_compiles() as events:
                (r,) = wp.launch(kernel, 3, [x], [np.zeros(3, np.float32) if to_given is np.asarray else 3])
            np.testing.assert_allclose(r, 66)
            found.append(len(events))
    assert found == [1, 0, 1, 0]


def test_what_only_says_how_warp_compiles_is_accepted():
    options = {"launch_bounds": (256, 1), "cluster_dim": 2, "grid_stride": False, "enable_cuda_smem_spilling": True}
    made = wp.kernel(name="renamed", cuda_max_registers=64, entry_point_abi="warp", **options)(squared)
    assert made.name == "renamed"
    np.testing.assert_allclose(wp.jax_kernel(made)(jnp.ones(2))[0], 66)


def test_what_there_is_not_is_refused():
    with pytest.raises(wp.KernelTypeError, match="no option 'unroll'"):
        wp.set_module_options({"unroll": 3})
    with pytest.raises(wp.KernelTypeError, match="max_unroll must be int, not True"):
        wp.set_module_options({"max_unroll": True})
    with pytest.raises(wp.KernelTypeError, match='need module="unique"'):
        wp.kernel(module_options={"fast_math": True})(squared)
    with pytest.raises(wp.KernelTypeError, match="entry_point_abi='external_constant_params'"):
        wp.kernel(entry_point_abi="external_constant_params")(squared)


def test_a_kernel_has_a_module_with_its_options():
    made = wp.Module(f"{__name__}_made")
    one, two = wp.kernel(squared, module=made), wp.kernel(squared, module=wp.get_module(f"{__name__}_got"))
    alone, apart = wp.kernel(squared, module="unique"), wp.kernel(squared, module="unique")
    assert wp.kernel(squared).module.name == __name__ and one.module.name == made.name
    assert alone.module is alone.module and alone.module != apart.module != wp.kernel(squared).module
    assert one.module.load("cpu") is one.module.load(block_dim=64) and one.module.unload() is None
    wp.set_module_options({"enable_backward": False}, module=made)
    wp.set_module_options({"enable_backward": False}, module=alone.module)
    two.module.options.update({"enable_backward": False, "max_unroll": 3})
    own = wp.kernel(squared)
    assert [k.enable_backward for k in (one, two, alone, apart, own)] == [False, False, False, True, True]
    assert [loops(k) for k in (own, two)] == [0, 1]
    assert dict(two.module.options) == wp.get_module_options(two.module) and two.module.options["max_unroll"] == 3
    with pytest.raises(wp.KernelTypeError, match="no option 'unroll'"):
        two.module.options["unroll"] = 2
    with pytest.raises(wp.LaunchError):
        one.module.load("nowhere")


def test_options_that_nobody_set_are_those_of_the_settings():
    made = wp.Module(f"{__name__}_settings")
    with wp.config(max_unroll=5):
        assert wp.get_module_options(made)["max_unroll"] == 5
    found = made.options.get("deterministic", None)
    assert found == wp.config.deterministic and made.options["fast_math"] is False


def test_module_options_are_a_dict_of_a_module_of_the_kernels_own():
    with pytest.raises(wp.KernelTypeError, match="must be a dict, not str"):
        wp.kernel(module="unique", module_options="fast_math")
    with pytest.raises(wp.KernelTypeError, match='need module="unique"'):
        wp.kernel(module_options={})
