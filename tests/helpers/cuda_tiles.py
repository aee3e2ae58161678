"""Random kernels with tiles whose stores never collide, in blocks of any size."""

import dataclasses

from exact_tiles import Maker

from jwarp.ir.nodes import Op
from jwarp.types import bool_, scalar_of, shape_of

BLOCK_DIMS = (1, 16, 32, 33, 64, 128)


class Scattered(Maker):
    """Makes kernels that never store several elements to one place together, which would leave any one of them."""

    def indices(self, array, shape):
        pool, self.pool = self.pool, self.pool[: 1 + self.tid_dims]  # what is never negative
        found = super().indices(array, shape)
        self.pool = pool
        return found

    def store(self, value):
        super().store(value)
        node = self.b.nodes[-1]
        if node.name == "store" and len(shape_of(value.type)) > len(self.shapes[node.attr]):
            self.b.nodes[-1] = dataclasses.replace(node, name="atomic_add")

    def put(self):
        first = len(self.b.nodes)
        super().put()
        for k, node in enumerate(self.b.nodes[first:], first):
            if isinstance(node, Op) and node.name == "put" and shape_of(node.args[1].type):
                is_bool = scalar_of(node.result.type) is bool_
                other = {"name": "not", "args": node.args[:1]} if is_bool else {"name": "put_add"}
                self.b.nodes[k] = dataclasses.replace(node, **other)


def in_blocks_of(kernel, rng):
    return dataclasses.replace(kernel, block_dim=rng.choice(BLOCK_DIMS))
