"""Textures are names for annotations; making one, and sampling one in a kernel, is refused."""

import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: wp.Texture2D(np.zeros((2, 2))), "wp.Texture2D: jwarp has no textures"),
        (lambda: wp.Texture3D(width=3), "wp.Texture3D: jwarp has no textures"),
    ],
)
def test_making_one(make, said):
    with pytest.raises(wp.KernelTypeError, match=said):
        make()


def test_they_annotate():
    @wp.struct
    class Scene:
        texture: wp.Texture2D
        k: float

    @wp.kernel
    def sampled(textures: wp.array[wp.Texture2D], scene: Scene, y: wp.array[float]):
        y[0] = wp.texture_sample(scene.texture, wp.vec2(0.5, 0.5), dtype=float)

    assert Scene().texture.id == 0 and wp.array(dtype=wp.Texture2D, ndim=1).ndim == 1
    assert wp.TextureFilterMode.LINEAR == 1 and wp.TextureAddressMode.CLAMP == 1
    with pytest.raises(wp.CompileError, match=r"wp\.texture_sample: textures .* are not available yet"):
        wp.inspect(sampled, "ir")


def test_extents_of_one_in_a_kernel_are_refused_by_name():
    @wp.kernel
    def extents(textures: wp.array[wp.Texture3D], y: wp.array[int]):
        y[0] = textures[1].width

    with pytest.raises(wp.CompileError, match="`width` of wp.Texture3D: jwarp has no textures") as caught:
        wp.inspect(extents, "ir")
    assert "interpolate between the elements of an array" in str(caught.value)
