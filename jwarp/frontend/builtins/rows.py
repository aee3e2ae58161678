"""Every module that has rows of the table of builtins: to import this one fills the table."""

from jwarp.frontend.builtins import atomic as atomic
from jwarp.frontend.builtins import checks as checks
from jwarp.frontend.builtins import control as control
from jwarp.frontend.builtins import memory as memory
from jwarp.frontend.builtins import prints as prints
from jwarp.frontend.builtins import quaternion as quaternion
from jwarp.frontend.builtins import scalar as scalar
from jwarp.frontend.builtins import vector as vector
from jwarp.frontend.builtins.tile import algebra as algebra
from jwarp.frontend.builtins.tile import functions as functions
from jwarp.frontend.builtins.tile import memory as tile_memory  # noqa: F401
from jwarp.frontend.builtins.tile import shapes as shapes
from jwarp.frontend.builtins.tile import stacks as stacks
from jwarp.frontend.builtins.tile import transfers as transfers
from jwarp.frontend.builtins.tile import transforms as transforms
