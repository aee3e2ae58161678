"""Samples of textures: the values of Warp, and values and derivatives of a reference in float64.

With Warp, as `python tests/lib/test_textures.py` runs it, samples go to `textures.json`.
"""

import functools
import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp

KNOWN = Path(__file__).with_suffix("").with_name("textures.json")
DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32")
MODES = ("WRAP", "CLAMP", "MIRROR", "BORDER")
EXTENTS = (7, 5, 3)  # of width, height and depth
COUNT = 12


def cases():
    """Settings of textures: each dtype, filter, way to address, and number of dimensions, channels and levels."""
    found = []
    for k, (ndim, dtype, mode) in enumerate(itertools.product((1, 2, 3), DTYPES, MODES)):
        closest = dtype in ("uint32", "int32") or k % 3 == 0
        found.append(
            {
                "ndim": ndim,
                "dtype": dtype,
                "channels": (1, 2, 4)[k % 3],
                "address_mode": mode,
                "filter_mode": "CLOSEST" if closest else "LINEAR",
                "normalized_coords": k % 2 == 0,
                "num_mip_levels": 1 + k % 3,
                "mip_filter_mode": "CLOSEST" if dtype in ("uint32", "int32") or k % 5 == 0 else "LINEAR",
            }
        )
    return found


def texels_of(case, make):
    shape = (*EXTENTS[: case["ndim"]][::-1], *([case["channels"]] if case["channels"] > 1 else []))
    kind = np.dtype(case["dtype"])
    if kind.kind == "f":
        return make.normal(size=shape).astype(kind)
    limits = np.iinfo(kind)
    return make.integers(limits.min, limits.max, shape, endpoint=True).astype(kind)


def made(w, case, texels):
    names = ("filter_mode", "mip_filter_mode")
    settings = {name: getattr(w.TextureFilterMode, case[name]) for name in names}
    kinds = (w.Texture1D, w.Texture2D, w.Texture3D)
    return kinds[case["ndim"] - 1](
        texels,
        address_mode=getattr(w.TextureAddressMode, case["address_mode"]),
        normalized_coords=case["normalized_coords"],
        num_mip_levels=case["num_mip_levels"],
        **settings,
    )


@functools.cache
def kernel_of(w, ndim, channels):
    """A kernel that samples at places and levels of detail."""
    kind = (w.Texture1D, w.Texture2D, w.Texture3D)[ndim - 1]
    place = (float, w.vec2, w.vec3)[ndim - 1]
    value = {1: float, 2: w.vec2, 4: w.vec4}[channels]

    def sampled(tex: kind, x: w.array(dtype=place), lod: w.array(dtype=float), y: w.array(dtype=value)):
        i = w.tid()
        y[i] = w.texture_sample(tex, x[i], dtype=value, lod=lod[i])

    return w.kernel(sampled, module="unique"), place, value


def places_of(case, make):
    """Places at and beyond the borders."""
    ndim = case["ndim"]
    x = make.uniform(-2.2, 3.2, (COUNT, ndim))
    x[0], x[1], x[2] = 0.0, 1.0, -1e-8
    if not case["normalized_coords"]:
        x *= EXTENTS[:ndim]
    return np.asarray(x, np.float32), make.uniform(-0.5, 2.5, COUNT).astype(np.float32)


def sampled_by(w, case):
    make = np.random.default_rng(len(json.dumps(case)))
    kernel, place, value = kernel_of(w, case["ndim"], case["channels"])
    texture = made(w, case, texels_of(case, make))
    x, lod = places_of(case, make)
    y = w.zeros(COUNT, dtype=value)
    given = [texture, w.array(x[:, 0] if case["ndim"] == 1 else x, dtype=place), w.array(lod, dtype=float)]
    w.launch(kernel, dim=COUNT, inputs=given, outputs=[y])
    return y.numpy()


@pytest.mark.parametrize("known", json.loads(KNOWN.read_text()) if KNOWN.exists() else [], ids=lambda k: str(k["case"]))
def test_samples_are_those_of_warp(known):
    found = sampled_by(wp, known["case"])
    scale = np.abs(known["values"]).max()
    assert_allclose(found, np.array(known["values"]).reshape(found.shape), rtol=1e-6, atol=2e-6 * scale)


# -- a reference in float64: the weight of each texel along each axis


def weights(x, size, mode, normalized):
    """The weights of the texels of an axis at a coordinate, and their derivatives."""
    scale = size if normalized else 1.0
    place = x * scale - 0.5
    low = int(np.floor(place))
    found, slopes = np.zeros(size), np.zeros(size)
    for k, weight, slope in ((low, 1 - (place - low), -scale), (low + 1, place - low, scale)):
        if mode == "WRAP":
            texel = k % size
        elif mode == "MIRROR":
            texel = min(k % (2 * size), 2 * size - 1 - k % (2 * size))
        elif mode == "CLAMP":
            texel = min(max(k, 0), size - 1)
        elif 0 <= k < size:
            texel = k
        else:
            continue
        found[texel] += weight
        slopes[texel] += slope
    return found, slopes


def reference(texels, x, mode, normalized):
    """Values at places, their derivatives by the places, and the weights of all texels."""
    ndim = x.shape[1]
    values, slopes, every = [], [], []
    for place in np.asarray(x, np.float64):
        axes = [weights(place[k], EXTENTS[k], mode, normalized) for k in range(ndim)]

        def outer(parts):
            total = np.ones(())
            for part in reversed(parts):
                total = np.multiply.outer(total, part)
            return total

        whole = outer([w for w, _ in axes])
        every.append(whole)
        values.append((whole * texels).sum())
        slopes.append([(outer([a[j == k] for j, a in enumerate(axes)]) * texels).sum() for k in range(ndim)])
    return np.array(values), np.array(slopes), np.array(every)


def linear(ndim, mode, normalized, **options):
    """A texture of float32, a function that samples it at places, and the places and texels."""
    make = np.random.default_rng(ndim)
    case = {"ndim": ndim, "dtype": "float32", "channels": 1, "normalized_coords": normalized}
    case |= {"address_mode": mode, "filter_mode": "LINEAR", "mip_filter_mode": "LINEAR", "num_mip_levels": 1, **options}
    texels = texels_of(case, make)
    kernel, _, _ = kernel_of(wp, ndim, 1)
    x, _ = places_of(case, make)
    x = np.asarray(make.uniform(-2.2, 3.2, x.shape) * (1 if normalized else EXTENTS[:ndim]), np.float32)

    def sample(texture, x, lod=-1.0):
        x = jnp.asarray(x)
        levels = jnp.broadcast_to(jnp.float32(lod), (COUNT,))
        return wp.launch(kernel, COUNT, [texture, x[:, 0] if ndim == 1 else x, levels], [COUNT])[0]

    return made(wp, case, texels), sample, x, texels


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_derivatives_by_places_and_texels(ndim, mode, normalized):
    texture, sample, x, texels = linear(ndim, mode, normalized)
    values, slopes, every = reference(texels, x, mode, normalized)
    out, pull = jax.vjp(jax.jit(sample), texture, jnp.asarray(x))
    assert_allclose(out, values, atol=2e-5)
    seed = np.random.default_rng(5).normal(size=COUNT).astype(np.float32)
    by_texture, by_place = pull(jnp.asarray(seed))
    assert type(by_texture) is type(texture)
    assert_allclose(by_texture.texels, np.tensordot(seed, every, 1).reshape(-1), atol=1e-4)
    assert_allclose(by_place, seed[:, None] * slopes, rtol=1e-3, atol=1e-3)
    move = np.random.default_rng(6).normal(size=x.shape).astype(np.float32)
    _, tangent = jax.jvp(lambda x: sample(texture, x), (jnp.asarray(x),), (jnp.asarray(move),))
    assert_allclose(tangent, (slopes * move).sum(1), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_tapes(ndim):
    texture, _, x, texels = linear(ndim, "MIRROR", True)
    _, slopes, every = reference(texels, x, "MIRROR", True)
    kernel, place, _ = kernel_of(wp, ndim, 1)
    texture = type(texture)(wp.array(texels), address_mode=2)
    texture.texels.requires_grad = True
    at = wp.array(x[:, 0] if ndim == 1 else x, dtype=place, requires_grad=True)
    y = wp.zeros(COUNT, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, COUNT, inputs=[texture, at, wp.full(COUNT, -1.0, dtype=float)], outputs=[y])
    tape.backward(grads={y: wp.ones(COUNT, dtype=float)})
    assert_allclose(at.grad.numpy().reshape(COUNT, ndim), slopes, rtol=1e-3, atol=1e-3)
    assert_allclose(texture.texels.grad.numpy(), every.sum(0).reshape(-1), atol=1e-4)


def test_batches_of_textures_and_of_places():
    texture, sample, x, _ = linear(2, "WRAP", True)
    make = np.random.default_rng(7)
    several = jnp.asarray(make.normal(size=(3, texture.texels.size)).astype(np.float32))
    moved = jnp.asarray(x + make.normal(size=(3, *x.shape)).astype(np.float32))
    one = lambda texels, x: sample(texture.replace(texels=texels), x)  # noqa: E731 short
    expected = np.stack([one(t, at) for t, at in zip(several, moved, strict=True)])
    assert np.ptp(expected) > 0.1
    assert_allclose(jax.vmap(one)(several, moved), expected, atol=1e-6)
    assert_allclose(jax.vmap(one, (0, None))(several, moved[0])[0], expected[0], atol=1e-6)
    batched = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (3, *leaf.shape)), texture.replace(texels=several[0]))
    assert_allclose(jax.vmap(sample)(batched, moved)[2], one(several[0], moved[2]), atol=1e-6)


def test_textures_of_traced_images_have_derivatives_through_their_levels():
    _, sample, x, texels = linear(2, "CLAMP", True)

    def total(image, lod):
        texture = wp.Texture2D(image, num_mip_levels=0)
        return (sample(texture, x, lod) * jnp.arange(COUNT)).sum()

    make = np.random.default_rng(8)
    move = jnp.asarray(make.normal(size=texels.shape).astype(np.float32))
    by_image, by_lod = jax.jit(jax.grad(total, argnums=(0, 1)))(jnp.asarray(texels), 0.7)
    assert_allclose((by_image * move).sum(), total(jnp.asarray(texels) + move, 0.7) - total(texels, 0.7), rtol=1e-3)
    assert_allclose(by_lod, total(texels, 1.0) - total(texels, 0.0), rtol=1e-3)  # it is linear between two levels
    numbers = wp.Texture2D(texels, num_mip_levels=0)
    assert_allclose(sample(numbers, x, 1.3), sample(wp.Texture2D(jnp.asarray(texels), num_mip_levels=0), x, 1.3))


def test_programs_make_textures_of_arrays_that_are_traced():
    texture, sample, x, texels = linear(2, "CLAMP", True)
    kernel, _, _ = kernel_of(wp, 2, 1)

    def program(image: wp.array2d(dtype=float), at: wp.array(dtype=wp.vec2)):
        y = wp.zeros(COUNT, dtype=float)
        wp.launch(kernel, COUNT, inputs=[wp.Texture2D(image), at, wp.full(COUNT, -1.0, dtype=float)], outputs=[y])
        return wp.to_jax(y)

    found = wp.functionalize(program)
    assert_allclose(found(texels, x)[0], sample(texture, x), atol=1e-6)
    by_image = jax.grad(lambda image: found(image, x)[0].sum())(jnp.asarray(texels))
    assert_allclose(by_image, reference(texels, x, "CLAMP", True)[2].sum(0), atol=1e-4)


def test_a_texture_says_nothing_about_the_number_of_threads():
    texture, sample, x, _ = linear(2, "CLAMP", True)
    kernel, _, _ = kernel_of(wp, 2, 1)
    (y,) = wp.jax_kernel(kernel)(texture, x, np.full(COUNT, -1.0, np.float32))
    assert_allclose(y, sample(texture, x))


def test_places_that_are_no_numbers_read_nothing_outside():
    texture, sample, x, _ = linear(3, "WRAP", True)
    x[:4], x[4:8], x[8:] = np.nan, np.inf, -3e38
    for options in ({}, {"filter_mode": "CLOSEST"}, {"address_mode": "BORDER"}, {"address_mode": "CLAMP"}):
        texture, sample, _, _ = linear(3, options.pop("address_mode", "WRAP"), True, **options)
        assert np.asarray(sample(texture, x)).shape == (COUNT,)


@wp.struct
class Scene:
    texture: wp.Texture2D
    scale: float


@wp.kernel
def of_scene(scene: Scene, y: wp.array[float]):
    y[0] = scene.scale * wp.texture_sample(scene.texture, 0.3, 0.6, dtype=float)
    y[1] = float(scene.texture.width) + 0.25 * float(scene.texture.height)


@wp.kernel
def of_several(textures: wp.array[wp.Texture2D], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.texture_sample(textures[i], wp.vec2(0.3, 0.6), dtype=float)


def test_textures_in_structs_and_arrays():
    texture, sample, x, texels = linear(2, "WRAP", True)
    x[0] = 0.3, 0.6
    expected = float(sample(texture, x)[0])
    scene = Scene()
    scene.texture, scene.scale = texture, 2.0
    y = wp.zeros(2, dtype=float)
    wp.launch(of_scene, 1, inputs=[scene], outputs=[y])
    assert_allclose(y.numpy(), [2.0 * expected, 8.25], rtol=1e-6)
    two = [wp.Texture2D(wp.array(k * texels), address_mode=wp.TextureAddressMode.WRAP) for k in (1.0, 2.0)]
    wp.launch(of_several, 2, inputs=[wp.array(two, dtype=wp.Texture2D)], outputs=[y])
    assert_allclose(y.numpy(), [expected, 2.0 * expected], rtol=1e-6)
    by_scene = jax.grad(lambda scene: wp.launch(of_scene, 1, [scene], [2])[0][0])(scene)
    assert_allclose(by_scene.scale, expected, rtol=1e-6)
    assert_allclose(by_scene.texture.texels.sum(), 2.0, rtol=1e-6)


def test_an_empty_texture_is_zero():
    y = wp.ones(2, dtype=float)
    wp.launch(of_scene, 1, inputs=[Scene(scale=1.0)], outputs=[y])
    assert_allclose(y.numpy(), [0.0, 0.0])


def test_what_samples_cannot_be():
    @wp.kernel
    def of_a_number(y: wp.array[float]):
        y[0] = wp.texture_sample(wp.uint64(3), wp.vec2(), dtype=float)

    with pytest.raises(wp.KernelTypeError, match="no overload of `texture_sample` takes"):
        wp.launch(of_a_number, 1, [], [1])

    @wp.kernel
    def of_integers(tex: wp.Texture2D, y: wp.array[int]):
        y[0] = wp.texture_sample(tex, wp.vec2(), dtype=int)

    with pytest.raises(wp.KernelTypeError, match="texture_sample"):
        wp.launch(of_integers, 1, [wp.Texture2D(np.ones((2, 2), np.float32))], [1])


if __name__ == "__main__":
    import warp

    rows = [{"case": case, "values": np.round(sampled_by(warp, case), 7).ravel().tolist()} for case in cases()]
    KNOWN.write_text(json.dumps(rows) + "\n")
