"""What an operation is told when it is compiled: a type for each kind of attribute.

Where a number or a text says all, the kind is one of the annotated types; `Role` says what the number is of. Other
kinds are frozen dataclasses, whose fields are annotated in the same way. Printing, serialising, checking and
renumbering follow the annotations, and know no operation by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Role:
    """What a number or text in an attribute stands for: of `array` and `tape`, it is the number."""

    what: str
    reads: bool = False
    writes: bool = False


# A parameter or local array; what the operation does to it, its row says.
ArrayNumber = Annotated[int, Role("array")]
# One of several arrays, which the operation reads, or changes.
Source = Annotated[int, Role("array", reads=True)]
Target = Annotated[int, Role("array", writes=True)]
# A parameter that is a scalar; parameters and arrays are counted together.
ParamNumber = Annotated[int, Role("parameter")]
TapeNumber = Annotated[int, Role("tape")]
Axis = Annotated[int, Role("axis")]
Text = Annotated[str, Role("text")]
FormatText = Annotated[str, Role("format")]
# The name of the operation on scalars that combines elements.
Combiner = Annotated[str, Role("operation")]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What an array or scalar of a derivative in the making is, with respect to number `param` of the kernel.

    It stands where the finished kernel has the number of an array or parameter.

    - `primal`: an argument as it was given
    - `work`: an array that the kernel overwrites, to be overwritten again
    - `final`: what the kernel left in it
    - `cotangent`: the gradient of an output's final content, which becomes that of its initial content
    - `gradient`: a gradient that starts as zeros
    - `tangent`: a tangent
    - `dim`: a dimension of the original launch, where there are more threads now
    - `slot`: a local array of the derivative
    """

    kind: str
    param: int


# What stands for an array: its number, or where it comes from while a derivative is made.
ArrayName = int | Origin
