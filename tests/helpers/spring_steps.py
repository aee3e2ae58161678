"""A small simulation of springs, made of objects and launches, and the same in jax.numpy."""

from __future__ import annotations

import dataclasses
import enum

import jax.numpy as jnp
import numpy as np

import jwarp as wp

N = 4


@wp.kernel(enable_backward=False)
def move(x: wp.array[wp.vec3], v: wp.array[wp.vec3], dt: float):
    i = wp.tid()
    x[i] = x[i] + dt * v[i]


@wp.kernel
def pull(x: wp.array[wp.vec3], k: wp.array[float], v: wp.array[wp.vec3], dt: float):
    i = wp.tid()
    v[i] = v[i] - dt * k[i] * wp.length_sq(x[i]) * x[i]


@wp.kernel
def energies(x: wp.array[wp.vec3], v: wp.array[wp.vec3], e: wp.array[float]):
    i = wp.tid()
    e[i] = 0.5 * wp.length_sq(v[i]) + wp.length_sq(x[i])


class Order(enum.Enum):
    FIRST = 1
    SECOND = 2


@dataclasses.dataclass
class Spring:
    k: wp.array
    order: Order = Order.FIRST


class Model:
    spring: Spring
    n: int

    def __init__(self, n):
        self.spring, self.n = Spring(wp.array(np.linspace(1, 2, n), dtype=float)), n
        self.table = np.arange(3)
        self.label = "model"


class State:
    x: wp.array

    def __init__(self, n, seed=0):
        make = np.random.default_rng(seed)
        self.x, self.v = (wp.array(make.uniform(-1, 1, (n, 3)), dtype=wp.vec3) for _ in range(2))
        self.e = wp.zeros(n, dtype=float)
        self.steps = 0


def step(m: Model, s: State, dt: float):
    before = wp.clone(s.v)
    wp.launch(pull, m.n, inputs=[s.x, m.spring.k, s.v, dt])
    wp.launch(move, m.n, inputs=[s.x, before if m.spring.order is Order.FIRST else s.v, dt])
    s.e.fill_(-1.0)
    wp.launch(energies, m.n - 1, inputs=[s.x[1:], s.v[1:]], outputs=[s.e[1:]])


def numpy_step(k, x, v, dt, order=Order.FIRST):
    w = v - dt * (k * jnp.sum(x * x, -1))[:, None] * x
    x = x + dt * (v if order is Order.FIRST else w)
    e = jnp.full(len(x), -1.0).at[1:].set((0.5 * jnp.sum(w * w, -1) + jnp.sum(x * x, -1))[1:])
    return x, w, e


def values(s):
    return tuple(wp.to_jax(a) for a in (s.x, s.v, s.e))
