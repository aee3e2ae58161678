"""Writes random differentiable kernels with structs, quaternions, transforms, references, slices and local vectors."""

from __future__ import annotations

from dataclasses import dataclass, field

import gradient_sources

FUNCTIONS = """\
@wp.struct
class Body:
    p: wp.vec3d
    q: wp.quatd
    m: F


@wp.struct
class Joint:
    parent: Body
    child: Body
    axis: wp.vec2d
    count: int


@wp.func
def turn(v: wp.vec3d, p: F):
    return wp.quat_from_axis_angle(wp.normalize(v + wp.vec3d(F(2.5), F(0.1), F(0.2))), p)


@wp.func
def body(v: wp.vec3d, p: F) -> Body:
    s = Body()
    s.p = v
    s.q = turn(v, p)
    if p > F(0.2):
        s.m = wp.tanh(p)
        return s
    s.m = F(0.5) + p * p
    s.p[1] += p
    return s


@wp.func
def moved(s: Body, h: F) -> Body:
    s.p += h * wp.quat_rotate(s.q, wp.vec3d(s.m, F(0.3), h))
    if s.m > F(0.6):
        return s
    s.m = wp.sin(s.m + h)
    for m in range(3):
        if s.p[m] < F(-0.5):
            s.q = wp.normalize(s.q * turn(s.p, h))
            return s
        s.p[m] *= F(0.7)
    return s


@wp.func
def joined(s: Body, o: Body, k: int) -> Joint:
    return Joint(s, moved(o, s.m), wp.vec2d(s.m, o.p[0]), k)


@wp.func
def grow(p: wp.ref[F], by: F):
    if by < F(-0.3):
        return
    p = wp.sin(p) + by * F(0.5)
    p += by * p


@wp.func
def shift(v: wp.ref[wp.vec3d], p: F):
    v[0] = wp.tanh(v[1] * p)
    v += wp.vec3d(p, F(0.1), v[2] * p)
    return v[0]


@wp.func
def found(row: wp.array[F], p: F, k: int):
    for m in range(row.shape[0]):
        if row[m] > p:
            return wp.sin(row[m]) * p, m
        row[m] = row[m] * p + F(0.05)
        if m > k:
            return row[m - k], k
    return p, -1


@wp.func
def twice(v: Any, p: F):
    return v * p + v * F(0.5)


@wp.func
def parts(v: wp.vec3d, p: F):
    if p < v[0]:
        return v * p, turn(v, p), p * v[2]
    return wp.cross(v, wp.vec3d(p, p, F(1.0))), turn(v, F(0.3)), wp.dot(v, v)


"""


@dataclass
class Writer(gradient_sources.Writer):
    """Also has the composites of simulators: structs in structs, quaternions, transforms, and places of these."""

    quaternions: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    joints: list[str] = field(default_factory=list)

    def source(self) -> str:
        source = super().source()
        head = gradient_sources.header(self.rank)
        assert source.startswith(head)
        own = head.replace("import jwarp as wp\n", "from typing import Any\n\nimport jwarp as wp\n", 1)
        own = own.replace("@wp.kernel\n", f"{FUNCTIONS}@wp.kernel\n") + "    tv = wp.zeros(shape=3, dtype=wp.vec3d)\n"
        return own + source[len(head) :]

    def block(self, count: int, depth: int) -> None:
        known = [list(names) for names in (self.quaternions, self.bodies, self.joints)]
        super().block(count, depth)
        if depth:
            self.quaternions, self.bodies, self.joints = known

    def statement(self, depth: int) -> None:
        own = [
            self.quaternion,
            self.body,
            self.body,
            self.joint,
            self.place,
            self.view,
            self.local_vector,
            self.several,
        ]
        if self.rng.random() < 0.4:
            self.rng.choice(own)(depth)
        else:
            super().statement(depth)

    def give(self, value: str) -> None:
        """A number from what was made, so that later statements depend on it."""
        name = self.fresh("v")
        self.put(f"{name} = wp.tanh({value})")
        self.floats.append(name)

    def quaternion_expression(self) -> str:
        made = [f"turn({self.vector_expression()}, {self.bounded()})"]
        made += (
            [f"{name}.q" for name in self.bodies] + [f"{name}.child.q" for name in self.joints] + self.quaternions * 2
        )
        return self.rng.choice(made)

    def quaternion(self, depth: int) -> None:
        if not self.quaternions or self.rng.random() < 0.3:
            name, value = self.fresh("q"), self.quaternion_expression()
            self.put(f"{name} = {value}")
            self.quaternions.append(name)
        name, other = self.rng.choice(self.quaternions), self.quaternion_expression()
        self.put(self.rng.choice([
            f"{name} = {name} * {other}", f"{name} = wp.normalize({name} + F(0.3) * {other})",
            f"{name}.{self.rng.choice('xyzw')} = {self.bounded()}", f"{name}[{self.column(4)}] += {self.bounded()}",
            f"{name} = wp.quat_inverse({name})", f"{name} = {other}",
            f"{name} = wp.quat_slerp(wp.normalize({name} + turn(d, a)), turn(d, F(0.4)), F(0.3) * {self.bounded()})",
            f"{name} *= F(0.8)", f"{name} = wp.lerp({name}, {other}, {self.leaf()})",
        ]))  # fmt: skip
        frame = f"wp.transformd({self.vector_expression()}, {name})"
        self.give(self.rng.choice([
            f"wp.quat_rotate({name}, {self.vector_expression()})[{self.column(3)}]", f"wp.dot({name}, {other})",
            f"wp.quat_to_matrix({name})[0, {self.column(3)}]", f"{name}.w", f"{name}[{self.column(4)}]",
            f"wp.transform_point({frame}, d)[1]", f"wp.transform_multiply({frame}, wp.transform_inverse({frame})).p[0]",
            f"({frame} * wp.transformd(d, {name}))[{self.column(7)}]",
            f"wp.quat_rotate_inv({name}, {self.vector_expression()})[2]",
        ]))  # fmt: skip

    def body_expression(self) -> str:
        made = [f"body({self.vector_expression()}, {self.bounded()})"] + self.bodies * 2
        made += [f"moved({name}, {self.bounded()})" for name in self.bodies]
        made += [f"{name}.{part}" for name in self.joints for part in ("parent", "child")]
        return self.rng.choice(made)

    def change_body(self, name: str) -> None:
        self.put(self.rng.choice([
            f"{name} = {self.body_expression()}", f"{name} = moved({name}, {self.bounded()})",
            f"{name}.p = {self.vector_expression()}", f"{name}.p += {self.vector_expression()}",
            f"{name}.p[{self.column(3)}] = {self.bounded()}", f"{name}.m = {self.bounded()}",
            f"{name}.m *= {self.bounded()}", f"{name}.q = {self.quaternion_expression()}",
            f"{name}.q.x = {self.bounded()}", f"grow({name}.m, {self.bounded()})",
            f"grow({name}.p[{self.rng.randrange(3)}], {self.bounded()})", f"shift({name}.p, {self.bounded()})",
        ]))  # fmt: skip

    def body(self, depth: int) -> None:
        if not self.bodies or self.rng.random() < 0.3:
            name, value = self.fresh("s"), self.body_expression()
            self.put(f"{name} = {value}")
            self.bodies.append(name)
        name = self.rng.choice(self.bodies)
        self.change_body(name)
        parts = (f"{name}.m", f"{name}.p[{self.column(3)}]", f"wp.dot({name}.q, turn(d, a))", f"{name}.q.y")
        self.give(self.rng.choice(parts))

    def joint(self, depth: int) -> None:
        if not self.joints or self.rng.random() < 0.4:
            name, first, second = self.fresh("j"), self.body_expression(), self.body_expression()
            self.put(f"{name} = joined({first}, {second}, {self.rng.choice(['n', '2', 'i'])})")
            self.joints.append(name)
        name = self.rng.choice(self.joints)
        if self.rng.random() < 0.6:
            self.change_body(f"{name}.{self.rng.choice(['parent', 'child'])}")
        else:
            self.put(self.rng.choice([
                f"{name}.axis = wp.vec2d({self.leaf()}, {self.leaf()})",
                f"{name}.axis[{self.column(2)}] += {self.bounded()}",
                f"{name} = {self.rng.choice(self.joints)}", f"{name}.count += 1",
            ]))  # fmt: skip
        self.give(f"{name}.axis[{name}.count % 2] + {name}.parent.m * {name}.child.p[0]")

    def place(self, depth: int) -> None:
        """A place that a function changes."""
        places = [*self.floats, f"t[{self.column(4)}]", f"w[{self.own}, {self.column(3)}]", f"y[{self.own}]"]
        self.put(f"grow({self.rng.choice(places)}, {self.bounded()})")
        vectors = [*self.vectors, f"r[{self.own}]", f"tv[{self.column(3)}]"]
        if self.rng.random() < 0.4:
            self.give(f"shift({self.rng.choice(vectors)}, {self.bounded()})")

    def view(self, depth: int) -> None:
        """A slice, or one of several arrays."""
        name, columns, own = self.fresh("e"), f"w[{self.own}]", self.own
        self.put(self.rng.choice([
            f"{name} = t[1:]", f"{name} = t[{self.column(3)}:4]", f"{name} = t[::-1]", f"{name} = {columns}",
            f"{name} = w[{own}, 1:]", f"{name} = t[0:4:2]", f"{name} = {columns} if {self.condition()} else t",
            f"{name} = t[1:] if {self.condition()} else {columns}",
        ]))  # fmt: skip
        if self.rng.random() < 0.3:
            self.put(f"if {self.condition()}:")
            self.put(f"    {name} = {self.rng.choice(['t', columns])}")
        for _ in range(self.rng.randint(1, 2)):
            operator = self.rng.choice(["=", "+=", "*="])
            self.put(f"{name}[{self.column(2)}] {operator} {self.bounded()}")
        if self.rng.random() < 0.5:
            self.give(f"{name}[{self.column(2)}]")
        else:
            value, place = self.fresh("v"), self.fresh("c")
            self.put(f"{value}, {place} = found({name}, {self.bounded()}, {self.rng.choice(['n', '1', '2'])})")
            self.floats.append(value)
            self.counters.append(place)

    def local_vector(self, depth: int) -> None:
        place = f"tv[{self.column(3)}]"
        self.put(self.rng.choice([
            f"{place} = {self.vector_expression()}", f"{place} += {self.vector_expression()}",
            f"{place}[{self.column(3)}] = {self.bounded()}", f"{place}.y *= {self.bounded()}",
            f"{place} *= {self.bounded()}", f"{place} = twice({place}, {self.bounded()})",
            f"{place} = tv[{self.column(3)}]",
        ]))  # fmt: skip
        self.give(f"tv[{self.column(3)}][{self.column(3)}]")

    def several(self, depth: int) -> None:
        vector, quaternion, value = self.fresh("g"), self.fresh("q"), self.fresh("v")
        self.put(f"{vector}, {quaternion}, {value} = parts({self.vector_expression()}, {self.bounded()})")
        self.put(f"{value} = wp.tanh(twice({value}, {self.leaf()}))")
        self.vectors.append(vector)
        self.quaternions.append(quaternion)
        self.floats.append(value)
