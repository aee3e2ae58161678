"""Lowers functions for CUDA, and reads what the calls of their programs say."""

import re

import jax
import jax.export

import jwarp as wp


def lowered(function, *args):
    """The program for CUDA as text, and what was compiled for it."""
    with wp.record_compiles() as events:
        program = jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",))
    return program.as_text(), events


def calls(text):
    return re.findall(r"custom_call @(jwarp\w+)", text)


def attribute(text, name):
    """A string attribute of the one call of a program, as bytes."""
    (found,) = re.findall(rf'\b{name} = "((?:[^"\\]|\\.)*)"', text)

    def byte(match):
        return match[1] if match[1] in b'\\"' else bytes([int(match[1], 16)])

    return re.sub(rb'\\([0-9A-F]{2}|[\\"])', byte, found.encode("latin-1"))
