"""The names of Warp's builtins, and calls of their overloads chosen at random, against Warp where it is installed."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.builtins.planned import PLANNED
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY

pytest.importorskip("warp")

import builtin_overloads

# Names that the package has beside the table of builtins.
NO_ROWS = {"array", "spatial_vector", "static"}
SAMPLE = 30


def test_every_name_of_warp_is_there_or_refused_by_name():
    known = {*BUILTINS, *LIBRARY, *PLANNED, *NO_ROWS}
    assert builtin_overloads.visible().keys() - known == set()
    assert all(hasattr(wp, name) for name in NO_ROWS)


def described(parameters):
    """Names with defaults; what is left out has a type of its own to say it, so None counts as any."""
    return tuple((name, None if default in (None, ..., float) else str(default)) for name, default in parameters)


# A default that a form cannot say; what `wp.transform_compose` does; any number of arguments instead of one or two.
OTHER_PARAMETERS = {"curlnoise", "matrix", "print", "tile_map", "tile_reduce"}


def test_parameters_have_the_names_and_defaults_of_warp():
    different = {}
    for name, overloads in builtin_overloads.visible().items():
        row = BUILTINS.get(name) or LIBRARY.get(name)
        if row is None or name in OTHER_PARAMETERS:
            continue
        signatures = [form.signature.parameters.items() for form in row.each_form]
        forms = {described((n, None if p.default is p.empty else p.default) for n, p in form) for form in signatures}
        for overload in overloads:
            defaults = overload.defaults or {}
            wanted = described((n, defaults.get(n)) for n in overload.input_types)
            if not overload.variadic and wanted not in forms:
                different[name] = wanted
    assert different == {}


def test_some_overloads_give_the_numbers_of_warp():
    found = builtin_overloads.audit(set(), SAMPLE)
    assert len(found.taken) > SAMPLE // 2
    assert not found.wrong, "\n".join(f"{call}: {reason}" for call, reason in found.wrong.items())


@pytest.mark.parametrize(
    "name, args",
    [("sin", (1,)), ("sqrt", (2,)), ("pow", (2, 3)), ("atan2", (1, 2)), ("floor", (True,)), ("bit_count", (1.5,)),
     ("add", (True, True))],
)  # fmt: skip
def test_outside_kernels_functions_take_the_kinds_of_numbers_that_they_take_in_them(name, args):
    with pytest.raises(wp.KernelTypeError, match=rf"wp\.{name} does not take \((int32|bool|float32)"):
        getattr(wp, name)(*args)
    assert abs(wp.sin(1.0) - np.sin(1.0)) < 1e-7 and wp.bit_count(7) == 3 and wp.add(1, 2) == 3
