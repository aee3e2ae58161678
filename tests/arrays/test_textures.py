"""Textures as objects: how they are made, copied and stored, and what is refused."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

pytestmark = pytest.mark.quick

DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32")


def numbers(dtype, shape):
    make, kind = np.random.default_rng(4), np.dtype(dtype)
    if kind.kind == "f":
        return make.normal(size=shape).astype(kind)
    limits = np.iinfo(kind)
    made = make.integers(limits.min, limits.max, shape, endpoint=True).astype(kind)
    made.flat[0] = limits.min
    return made


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_have_the_numbers_that_were_given(dtype):
    given = numbers(dtype, (3, 5, 2))
    texture = wp.Texture2D(given)
    assert (texture.width, texture.height, texture.num_channels, texture.ndim) == (5, 3, 2, 2)
    assert texture.dtype is getattr(wp, dtype) and texture.shape == (3, 5, 2)
    out = np.zeros_like(given)
    texture.copy_to(out)
    assert_array_equal(out, given)
    other = wp.Texture2D(width=5, height=3, num_channels=2, dtype=texture.dtype)
    other.copy_from(texture)
    into = wp.zeros((3, 5, 2), dtype=texture.dtype)
    other.copy_to(into)
    assert_array_equal(into.numpy(), given)
    other.copy_from(given[::-1])
    texture.copy_from(other)
    texture.copy_to(out)
    assert_array_equal(out, given[::-1])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16"])
def test_what_is_read_of_numbers(dtype):
    given = numbers(dtype, (2, 3, 4))
    read = np.asarray(wp.Texture3D(given).texels).reshape(given.shape)
    wide = given.astype(np.float64) / (np.iinfo(dtype).max if dtype != "float16" else 1)
    assert_allclose(read, np.maximum(wide, -1) if dtype != "float16" else wide, rtol=1e-6)
    assert_allclose(wp.Texture3D(jnp.asarray(given)).texels, read.ravel(), rtol=2e-7)  # XLA multiplies by 1 / 255


def test_vectors_are_channels():
    given = numbers("float32", (3, 5, 4))
    texture = wp.Texture2D(wp.array(given, dtype=wp.vec4))
    assert texture.num_channels == 4 and isinstance(texture.texels, wp.array)
    into = wp.zeros((3, 5), dtype=wp.vec4)
    texture.copy_to(into)
    assert_array_equal(into.numpy(), given)


def test_levels_have_means_of_two_texels_along_each_axis():
    given = numbers("float32", (4, 5))
    texture = wp.Texture2D(given, num_mip_levels=0)
    assert texture.num_mip_levels == 3 and texture.is_mipmapped
    first, second, third = np.split(np.asarray(texture.texels), [20, 24])
    assert_array_equal(first, given.ravel())
    assert_allclose(second.reshape(2, 2), given[:, :4].reshape(2, 2, 2, 2).mean((1, 3)), rtol=1e-6)
    assert_allclose(third, second.mean(keepdims=True), rtol=1e-6)
    for copied in (texture.copy_from, texture.copy_to):
        with pytest.raises(RuntimeError, match="not supported for mipmapped textures"):
            copied(given)


def test_a_texture_is_a_pytree_of_its_texels():
    texture = wp.Texture1D(numbers("float32", 6), address_mode=wp.TextureAddressMode.WRAP, normalized_coords=False)
    (leaf,), tree = jax.tree.flatten(texture)
    assert_array_equal(leaf, texture.texels)
    again = jax.tree.unflatten(tree, [leaf + 1])
    assert again.address_mode_u is wp.TextureAddressMode.WRAP and again.normalized_coords is False
    assert jax.tree.structure(again) == tree != jax.tree.structure(wp.Texture1D(numbers("float32", 6)))
    assert_array_equal(wp.replace(texture, texels=leaf * 2).texels, leaf * 2)
    assert_array_equal(texture.replace(texels=leaf * 2).texels, leaf * 2)
    for other in (copy.copy(texture), copy.deepcopy(texture), pickle.loads(pickle.dumps(texture))):
        assert type(other) is wp.Texture1D and other.address_mode_u == 0
        assert_array_equal(other.texels, texture.texels)


def test_exported_functions_take_textures():
    texture = wp.Texture1D(jnp.asarray(numbers("float32", 6)), address_mode=wp.TextureAddressMode.WRAP)
    exported = jax.export.export(jax.jit(lambda texture: texture.texels.sum() * texture.width))(texture)
    read = jax.export.deserialize(exported.serialize())
    assert_allclose(read.call(texture), 6 * np.sum(texture.texels), rtol=1e-6)


FLOATS, BYTES = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int32)


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: wp.Texture2D(np.zeros(3, np.float32)), "2D texture data must be 2D or 3D array"),
        (lambda: wp.Texture2D(np.zeros((2, 2))), "Unsupported texture dtype: float64"),
        (lambda: wp.Texture2D([[1.0]]), "Data must be a Warp array or NumPy array"),
        (lambda: wp.Texture2D(np.zeros((2, 2, 3), np.float32)), "num_channels must be 1, 2, or 4"),
        (lambda: wp.Texture2D(np.zeros((0, 2), np.float32)), "height must be a positive integer"),
        (lambda: wp.Texture3D(width=3), "Unsupported texture dtype: None"),
        (lambda: wp.Texture3D(width=3, dtype=float), "depth must be a positive integer"),
        (lambda: wp.Texture2D(FLOATS, width=4), r"width does not match data width \(expected 4, got 3\)"),
        (lambda: wp.Texture2D(FLOATS, dtype=int), "dtype does not match"),
        (lambda: wp.Texture2D(FLOATS, filter_mode=2), "Invalid texture filter mode: 2"),
        (lambda: wp.Texture2D(FLOATS, address_mode=(0, 7)), "Invalid texture address mode for axis 1: 7"),
        (lambda: wp.Texture2D(FLOATS, num_mip_levels=3), "exceeds the maximum for base dimensions"),
        (lambda: wp.Texture2D(FLOATS, num_mip_levels=-1), "must be >= 0"),
        (lambda: wp.Texture2D(width=2, height=2, num_channels=1, dtype=float, num_mip_levels=2), "require data"),
        (lambda: wp.Texture2D(BYTES, filter_mode=1), "require filter_mode=TextureFilterMode.CLOSEST"),
        (lambda: wp.Texture2D(BYTES, num_mip_levels=2, mip_filter_mode=1), "require mip_filter_mode"),
        (lambda: wp.Texture(FLOATS), "make a Texture1D, Texture2D or Texture3D"),
        (lambda: wp.Texture2D(FLOATS).copy_from(FLOATS[:1]), r"texture shape=\(2, 3\), source shape=\(1, 3\)"),
        (lambda: wp.Texture2D(FLOATS).copy_from(BYTES), "dtype=float32, source dtype=int32"),
        (lambda: wp.Texture2D(FLOATS).copy_to(wp.Texture2D(FLOATS[:1])), r"destination shape=\(1, 3\), source"),
    ],
)
def test_what_is_refused(make, said):
    with pytest.raises(ValueError, match=said) as caught:
        make()
    assert isinstance(caught.value, (wp.KernelTypeError, wp.LaunchError))


def test_what_does_not_change():
    texture = wp.Texture2D(FLOATS)
    with pytest.raises(wp.KernelTypeError, match="make another texture, or use copy_from"):
        texture.width = 4
    with pytest.raises(wp.KernelTypeError, match="'width' belongs to the texels"):
        texture.replace(width=4)
    with pytest.raises(wp.LaunchError, match=r"use texture\.replace"):
        wp.Texture2D(jnp.asarray(FLOATS)).copy_from(FLOATS)
    with pytest.raises(RuntimeError, match="only supported for CUDA textures"):
        _ = texture.cuda_array
    with pytest.raises(RuntimeError, match="there are no surfaces"):
        wp.Texture2D(FLOATS, surface_access=True)
    assert texture.id > 0 and wp.Texture2D(wp.array(FLOATS)).id > 0
