"""A kernel that calls native code, for both libraries: Warp compiles the texts for the processor, too."""

import jwarp as wp


@wp.func_native(
    """
    wp::vec3 turned = wp::mul(m, v);
    wp::vec_t<3, float> sum = turned + v * 2.0f;
    sum[1] -= q.w;                       // and a name in a remark: out = 1
    sum.c[2] = m.data[2][0] + t.p[0] + wp::dot(v, turned);
    const wp::vec3 point = wp::transform_point(t, v), turned_back = wp::quat_rotate_inv(t.q, point);
    if (wp::isfinite(point[0]) && point[0] < INFINITY)
        sum[0] += point[0] + turned_back[1];
    return sum;
    """
)
def combined(v: wp.vec3, m: wp.mat33, q: wp.quat, t: wp.transform) -> wp.vec3: ...


@wp.func_native("const float before = x; x = y[0] * before; y = wp::vec2(before, (float)n); return n > 3;")
def exchanged(x: wp.ref[float], y: wp.ref[wp.vec2], n: wp.int64) -> bool: ...


@wp.func_native(
    """
    const int columns = table.shape[1];
    const double* row = &table.data[i * columns];
    long long sum = 0;
    for (int j = 0; j < columns; ++j)
        sum += (long long)row[j];
    sums.data[i] += sum;
    if (flags[i])
        hits.data[i] = points[i] + points.data[0];
    """
)
def summed_rows(
    table: wp.array2d[wp.float64],
    flags: wp.array[bool],
    points: wp.array[wp.vec2],
    i: int,
    sums: wp.array[wp.int64],
    hits: wp.array[wp.vec2],
): ...


@wp.kernel
def of_every_type(
    v: wp.array[wp.vec3],
    m: wp.array[wp.mat33],
    q: wp.array[wp.quat],
    t: wp.array[wp.transform],
    table: wp.array2d[wp.float64],
    flags: wp.array[bool],
    points: wp.array[wp.vec2],
    r: wp.array[wp.vec3],
    places: wp.array[wp.vec2],
    sums: wp.array[wp.int64],
    hits: wp.array[wp.vec2],
    large: wp.array[bool],
):
    i = wp.tid()
    r[i] = combined(v[i], m[i], q[i], t[i])
    number = r[i][0]
    large[i] = exchanged(number, places[i], wp.int64(i))
    r[i] += wp.vec3(number)
    summed_rows(table, flags, points, i, sums, hits)
