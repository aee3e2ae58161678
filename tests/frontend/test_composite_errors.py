"""Errors of vectors and matrices in kernels have a class, a reason and a way out.

In the bodies below `«` and `»` stand around the text that the caret must point at.
"""

import numpy as np
import pytest
from error_checks import C, T, check

import jwarp as wp

KERNEL = (
    "import jwarp as wp\n\n"
    "@wp.func\ndef half(v: wp.vec3) -> wp.vec3:\n    return 0.5 * v\n\n"
    "@wp.func\ndef wrong(v: wp.vec3) -> wp.vec2:\n    return v\n\n"
    "@wp.kernel\n"
    "def k(a: wp.array[wp.vec3], v: wp.vec3, d: wp.vec3d, p: wp.vec2, m: wp.mat33, n: int, x: float):\n"
)

# A kernel body, the error, words of its reason, words of the way out.
BODIES = {
    "too many components": (
        "u = «wp.vec3(x, x, x, x)»",
        T,
        "incompatible number of values given (4) when constructing a vector",
        "",
    ),
    "too few components": (
        "u = «wp.mat33(x, x)»",
        T,
        "incompatible number of values given (2) when constructing a matrix",
        "",
    ),
    "components of another type": ("u = «wp.vec3(n, n, n)»", T, "this value is int32: all values", "convert"),
    "float literal for an integer": ("u = «wp.vec3i(1, 2, 2.5)»", T, "int32 cannot be 2.5", ""),
    "array for a component": ("u = «wp.vec2(a, x)»", T, "component must be a scalar, not array[vec3]", "a[i]"),
    "vector of vectors": ("u = «wp.vec4(p, p)»", T, "made of scalars, not of (vec2, vec2)", "each component"),
    "matrix of vectors": ("u = «wp.mat33(v, v, v)»", T, "not of (vec3, vec3, vec3)", "wp.matrix_from_rows"),
    "another shape": ("u = «wp.vec2(v)»", T, "vec3 cannot become vec2", ""),
    "keyword for a type": ("u = «wp.vec3(x=x)»", C, "vec3() takes no keyword", ""),
    "vector of unknown length": ("u = «wp.vector(x)»", T, "the `length` argument must be specified", "length=3"),
    "vector of varying length": ("u = «wp.vector(x, length=n)»", T, "length must be a positive constant", ""),
    "vector of several types": ("u = «wp.vector(x, n)»", T, "got float32, int32: all values", "dtype="),
    "vector of no type": ("u = «wp.vector(length=3, dtype=wp.vec3)»", T, "dtype of wp.vector", ""),
    "another length than its name says": ("u = «wp.vec3(x, length=2)»", T, "vec3 has the length 3", "leave length out"),
    "another shape than its name says": ("u = «wp.mat22(m, shape=(3, 3))»", T, "mat22 has the shape (2, 2)", "shape"),
    "vector of another length": ("u = «wp.vector(v, length=2)»", T, "vec3 cannot become vec2", ""),
    "unknown keyword": ("u = «wp.vector(x, size=2)»", T, "unexpected keyword argument 'size'", ""),
    "matrix of a transform": (
        "u = «wp.matrix(v, wp.quat_identity(), v)»",
        T,
        "a position, a rotation and a scale",
        "wp.transform_compose",
    ),
    "matrix of unknown shape": ("u = «wp.matrix(x, x)»", T, "the `shape` argument must be specified", "shape=(2, 3)"),
    "matrix of odd shape": ("u = «wp.matrix(x, shape=3)»", T, "(rows, columns), not int32", ""),
    "matrix of negative shape": ("u = «wp.matrix(x, shape=(2, -1))»", T, "positive", ""),
    "identity of a varying size": ("u = «wp.identity(n, float)»", T, "n must be a positive constant", ""),
    "identity without type": ("u = «wp.identity(3)»", T, "missing a required argument: 'dtype'", ""),
    "component too far": ("u = v[«3»]", C, "index 3 is outside 0 to 2", ""),
    "component too far below": ("u = v[«-4»]", C, "index -4 is outside", ""),
    "entry too far": ("u = m[0, «3»]", C, "index 3 is outside 0 to 2", ""),
    "component by a float": ("u = v[«x»]", T, "component index must be an integer, not float32", ""),
    "too many indices": ("u = «v[0, 1]»", T, "vec3 takes 1 index(es), 2 given", ""),
    "three indices": ("u = «m[0, 1, 2]»", T, "mat33 takes 2 index(es), 3 given", ""),
    "slice without step": ("u = v[«::0»]", C, "Slice step cannot be zero", ""),
    "varying slice": ("u = v[«n»:3]", C, "must be a constant integer", ""),
    "unknown attribute": ("u = «v.xy»", T, "`xy` is not an attribute of vec3", "v[0]"),
    "attribute too far": ("u = «p.z»", T, "`z` is not an attribute of vec2", "v[0]"),
    "attribute of a matrix": ("u = «m.x»", T, "`x` is not an attribute of mat33", ""),
    "assigned component too far": ("v[«3»] = x", C, "index 3 is outside 0 to 2", ""),
    "assigned attribute": ("«v.q» = x", T, "`q` is not an attribute of vec3", ""),
    "assigned value of another type": (
        "v[0] = «n»",
        T,
        "expects value of type float32 in `v`, got int32",
        "wp.float32",
    ),
    "assigned double": ("v.x = «d.x»", T, "expects value of type float32 in `v`, got float64", "wp.float32"),
    "vector for a component": (
        "v[0] = «p»",
        T,
        "expects value of type float32 in `v`, got vec2",
        "take a component, such as v[0]",
    ),
    "matrix for a component": ("v[0] = «m»", T, "expects value of type float32 in `v`, got mat33", "such as v[0, 0]"),
    "vector for a vector of doubles": ("a[0] = «d»", T, "holds vec3, the value is vec3d", "convert it: wp.vec3(…)"),
    "assigned number for a row": ("m[0] = «x»", T, "expects value of type vec3 in `m`, got float32", ""),
    "assigned row of another length": ("m[0] = «p»", T, "expects value of type vec3 in `m`, got vec2", ""),
    "assigned number for a slice": ("v[0:2] = «x»", T, "expects value of type vec2 in `v`, got float32", ""),
    "index after a slice": ("«v[0:2][0]» = x", C, "a slice cannot be indexed where it is assigned", "whole"),
    "component of a component": ("«v[0][0]» = x", T, "float32 has no components", ""),
    "attribute of an array": ("«a.x» = x", C, "cannot be assigned to", ""),
    "component of a number": ("«x»[0] = x", C, "cannot be assigned to", "element"),
    "element of another type": ("a[0] = «p»", T, "`a` holds vec3, the value is vec2", ""),
    "number for an element": ("a[0] = «x»", T, "`a` holds vec3, the value is float32", ""),
    "added number": ("a[0] += «x»", T, "`a` holds vec3, the value is float32", ""),
    "too many indices of an element": ("u = «a[0, 1]»", T, "`a` has 1 dimension(s), 2 index(es)", ""),
    "variable of another type": ("u = v\n«u» = p", T, "`u` is vec3 and cannot become vec2", ""),
    "vector times vector": ("u = «v * v»", T, "`*` does not take (vec3, vec3)", "wp.cw_mul"),
    "vector by vector": ("u = «v / v»", T, "`/` does not take (vec3, vec3)", "wp.cw_div"),
    "vector at vector": ("u = «v @ v»", T, "`@` does not take (vec3, vec3)", "wp.dot"),
    "vector plus number": ("u = «v + x»", T, "`+` does not take (vec3, float32)", "wp.vec3(1.0)"),
    "vectors of two lengths": ("u = «v + p»", T, "`+` needs vectors or matrices of one type, not vec3, vec2", ""),
    "vectors of two types": ("u = «v - d»", T, "not vec3, vec3d", ""),
    "compared vectors of two lengths": ("u = «v == p»", T, "`==` needs vectors or matrices of one type", ""),
    "ordered vectors": ("u = «v < v»", T, "`<` does not take (vec3, vec3)", "components"),
    "vector and number compared": ("u = «v == x»", T, "`==` does not take (vec3, float32)", "components"),
    "matrix at a short vector": ("u = «m @ p»", T, "`@` does not take (mat33, vec2)", ""),
    "double vector times float": ("u = «d * x»", T, "got ['float64', 'float32']", "convert"),
    "vector to a power": ("u = «v ** v»", T, "`**` does not take (vec3, vec3)", ""),
    "vector to the power of a number": ("u = «v ** x»", T, "`**` does not take (vec3, float32)", "each component"),
    "inverted floats": ("u = «~v»", T, "`~` does not take (float32)", ""),
    "vector as a condition": ("if «v»:\n    pass", T, "condition must be a scalar, not vec3", ""),
    "vector to a number": ("u = «float(v)»", T, "must be a scalar, not vec3", ""),
    "vector as an index": ("u = a[«v»]", T, "array index must be a scalar, not vec3", ""),
    "vector to a scalar function": ("u = «wp.sin(v)»", T, "wp.sin does not take (vec3)", "each component"),
    "vector clamped": ("u = wp.clamp(«v», x, x)", T, "must be a scalar, not vec3", ""),
    "dot of matrices": ("u = «wp.dot(m, m)»", T, "wp.dot takes 2 vectors of one type, got (mat33, mat33)", ""),
    "dot of one": ("u = «wp.dot(v)»", T, "wp.dot takes 2 vectors", ""),
    "dot of two lengths": ("u = «wp.dot(v, p)»", T, "the same, got ['vec3f', 'vec2f']", ""),
    "cross of pairs": ("u = «wp.cross(p, p)»", T, "wp.cross takes vectors of length 3", ""),
    "length of integers": ("u = «wp.length(wp.vec3i(1, 2, 3))»", T, "a vector of floats, got (vec3i)", ""),
    "length of a number": ("u = «wp.length(x)»", T, "wp.length takes a vector of floats, got (float32)", ""),
    "transposed vector": ("u = «wp.transpose(v)»", T, "wp.transpose takes a matrix, got (vec3)", ""),
    "trace of a wide matrix": ("u = «wp.trace(m[0:2])»", T, "takes a square matrix", ""),
    "inverse of a large matrix": ("u = «wp.inverse(wp.identity(5, float))»", T, "at most 4 rows", ""),
    "rows of two lengths": (
        "u = «wp.matrix_from_rows(v, p)»",
        T,
        "2 vectors of one type: Input types must be exactly the same, got",
        "",
    ),
    "no rows": ("u = «wp.matrix_from_rows()»", T, "wp.matrix_from_rows takes a vector", ""),
    "least of three vectors": ("u = «wp.min(v, v, v)»", T, "wp.min takes 2 vectors", ""),
    "sides of two types": ("u = «v if n > 0 else p»", T, "types vec3 and vec2", "convert"),
    "too few names": ("«q, r» = v", C, "3 values cannot be unpacked into 2 names", ""),
    "wrong argument": ("u = half(«p»)", T, "`v` of `half` must be vec3, not vec2", ""),
    "wrong result": ("u = wrong(v)", T, "annotated as `vec2` but the code returns a value of type `vec3`", ""),
    "two branches": ("if n > 0:\n    u = v\nelse:\n    u = p\nq = u", T, "vec3", ""),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_mistake_with_vectors(name, tmp_path):
    text, error, words, hint = BODIES[name]
    check(KERNEL + "".join(f"    {line}\n" for line in text.split("\n")), error, words, hint, tmp_path)


def test_functions_of_vectors_work_outside_kernels():
    assert wp.dot((1.0, 2.0), (3.0, 4.0)) == 11.0
    np.testing.assert_allclose(wp.normalize(wp.vec3d(0, 3, 4)), [0, 0.6, 0.8])
    with pytest.raises(TypeError, match="takes 2 vectors of one type"):
        wp.dot(wp.vec2(), wp.vec3())
