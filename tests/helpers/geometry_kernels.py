"""Kernels that query grids, trees and meshes, for jwarp and for Warp."""

import jwarp as wp


@wp.kernel
def neighbours(grid: wp.uint64, points: wp.array(dtype=wp.vec3), radius: float, found: wp.array2d(dtype=int)):
    i = wp.tid()
    query = wp.hash_grid_query(grid, points[i], radius)
    index = int(0)
    while wp.hash_grid_query_next(query, index):
        found[i, index] = found[i, index] + 1


@wp.kernel
def boxes(
    bvh: wp.uint64,
    lows: wp.array(dtype=wp.vec3),
    highs: wp.array(dtype=wp.vec3),
    by_box: wp.array2d(dtype=int),
    by_ray: wp.array2d(dtype=int),
    by_capsule: wp.array2d(dtype=int),
    by_sphere: wp.array2d(dtype=int),
):
    i = wp.tid()
    low = lows[i]
    high = highs[i]
    index = int(0)
    query = wp.bvh_query_aabb(bvh, low, high)
    while wp.bvh_query_next(query, index):
        by_box[i, index] = by_box[i, index] + 1
    ray = wp.bvh_query_ray(bvh, low, high - low)
    while wp.bvh_query_next(ray, index, 0.8):
        by_ray[i, index] = by_ray[i, index] + 1
    capsule = wp.bvh_query_capsule(bvh, low, high - low, 0.1)
    while wp.bvh_query_next(capsule, index):
        by_capsule[i, index] = by_capsule[i, index] + 1
    sphere = wp.bvh_query_sphere(bvh, low, 0.5)
    while wp.bvh_query_next(sphere, index):
        by_sphere[i, index] = by_sphere[i, index] + 1


@wp.kernel
def closest(
    mesh: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    positions: wp.array2d(dtype=wp.vec3),
    signs: wp.array2d(dtype=float),
    velocities: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    p = points[i]
    a = wp.mesh_query_point(mesh, p, 0.9)
    if a.result:
        positions[i, 0] = wp.mesh_eval_position(mesh, a.face, a.u, a.v)
        signs[i, 0] = a.sign
        velocities[i] = wp.mesh_eval_velocity(mesh, a.face, a.u, a.v)
        normals[i] = wp.mesh_eval_face_normal(mesh, a.face)
    b = wp.mesh_query_point_no_sign(mesh, p, 100.0)
    positions[i, 1] = wp.mesh_eval_position(mesh, b.face, b.u, b.v)
    signs[i, 1] = float(b.result)
    c = wp.mesh_query_furthest_point_no_sign(mesh, p, 0.0)
    positions[i, 2] = wp.mesh_eval_position(mesh, c.face, c.u, c.v)
    signs[i, 2] = float(c.result)
    d = wp.mesh_query_point_sign_normal(mesh, p, 100.0)
    signs[i, 3] = d.sign
    e = wp.mesh_query_point_sign_winding_number(mesh, p, 100.0)
    signs[i, 4] = e.sign
    f = wp.mesh_query_point_sign_parity(mesh, p, 100.0, 3, 0.2)
    signs[i, 5] = f.sign
    sign = float(7.0)
    face = int(0)
    u = float(0.0)
    v = float(0.0)
    if wp.mesh_query_point(mesh, p, 0.3, sign, face, u, v):
        positions[i, 3] = wp.mesh_eval_position(mesh, face, u, v)
    signs[i, 6] = sign
    if wp.mesh_query_point_no_sign(mesh, p, 0.3, face, u, v):
        positions[i, 4] = wp.mesh_eval_position(mesh, face, u, v)


@wp.kernel
def rays(
    mesh: wp.uint64,
    starts: wp.array(dtype=wp.vec3),
    directions: wp.array(dtype=wp.vec3),
    hits: wp.array(dtype=wp.vec4),
    positions: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
    counts: wp.array2d(dtype=int),
    by_box: wp.array2d(dtype=int),
    by_sphere: wp.array2d(dtype=int),
):
    i = wp.tid()
    start = starts[i]
    direction = directions[i]
    a = wp.mesh_query_ray(mesh, start, direction, 2.5)
    hits[i] = wp.vec4(float(a.result), wp.sign(a.sign), a.t, 0.0)
    normals[i] = a.normal
    if a.result:
        positions[i] = wp.mesh_eval_position(mesh, a.face, a.u, a.v)
    counts[i, 0] = int(wp.mesh_query_ray_anyhit(mesh, start, direction, 1.0))
    counts[i, 1] = wp.mesh_query_ray_count_intersections(mesh, start, direction)
    t = float(0.0)
    u = float(0.0)
    v = float(0.0)
    sign = float(0.0)
    face = int(-1)
    normal = wp.vec3()
    counts[i, 2] = int(wp.mesh_query_ray(mesh, start, direction, 1.0, t, u, v, sign, normal, face))
    counts[i, 3] = face
    counts[i, 4] = wp.mesh_get_index(mesh, i)
    if wp.mesh_get(mesh).indices[i] != wp.mesh_get_index(mesh, i):
        counts[i, 4] = -2
    if wp.length(wp.mesh_get_point(mesh, i) - wp.mesh_get(mesh).points[wp.mesh_get_index(mesh, i)]) != 0.0:
        counts[i, 4] = -3
    index = int(0)
    low = start - wp.vec3(0.2, 0.3, 0.4)
    query = wp.mesh_query_aabb(mesh, low, start)
    while wp.mesh_query_aabb_next(query, index):
        by_box[i, index] = by_box[i, index] + 1
    for hit in wp.mesh_query_sphere(mesh, start, 0.35):
        by_sphere[i, hit] = by_sphere[i, hit] + 1


@wp.kernel
def of_group(
    bvh: wp.uint64,
    mesh: wp.uint64,
    lows: wp.array(dtype=wp.vec3),
    highs: wp.array(dtype=wp.vec3),
    found: wp.array2d(dtype=int),
    hits: wp.array2d(dtype=float),
):
    i = wp.tid()
    index = int(0)
    root = wp.bvh_get_group_root(bvh, i % 4)
    query = wp.bvh_query_aabb(bvh, lows[i], highs[i], root)
    while wp.bvh_query_next(query, index):
        found[i, index] = found[i, index] + 1
    of_mesh = wp.mesh_get_group_root(mesh, i % 4)
    direction = highs[i] - lows[i]
    hit = wp.mesh_query_ray(mesh, lows[i], direction, 100.0, of_mesh)
    if hit.result:
        hits[i, 0] = hit.t
    hits[i, 1] = float(wp.mesh_query_ray_anyhit(mesh, lows[i], direction, 100.0, of_mesh))
    hits[i, 2] = float(wp.mesh_query_ray_count_intersections(mesh, lows[i], direction, of_mesh))
    tree = wp.mesh_get_bvh(mesh)
    count = int(0)
    inner = wp.bvh_query_aabb(tree, lows[i], highs[i])
    while wp.bvh_query_next(inner, index):
        count += 1
    hits[i, 3] = float(count)


@wp.kernel
def triangles(corners: wp.array2d(dtype=wp.vec3), met: wp.array(dtype=int)):
    i = wp.tid()
    met[i] = wp.intersect_tri_tri(
        corners[i, 0], corners[i, 1], corners[i, 2], corners[i, 3], corners[i, 4], corners[i, 5]
    )
