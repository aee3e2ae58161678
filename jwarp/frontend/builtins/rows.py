"""Every module that has rows of the table of builtins: to import this one fills the table."""

from jwarp.frontend.builtins import atomic as atomic
from jwarp.frontend.builtins import checks as checks
from jwarp.frontend.builtins import control as control
from jwarp.frontend.builtins import memory as memory
from jwarp.frontend.builtins import prints as prints
from jwarp.frontend.builtins import quaternion as quaternion
from jwarp.frontend.builtins import scalar as scalar
from jwarp.frontend.builtins import vector as vector
from jwarp.frontend.builtins.tiles import algebra as algebra
from jwarp.frontend.builtins.tiles import creation as creation
from jwarp.frontend.builtins.tiles import map_reduce as map_reduce
from jwarp.frontend.builtins.tiles import shapes as shapes
from jwarp.frontend.builtins.tiles import stacks as stacks
from jwarp.frontend.builtins.tiles import transfers as transfers
from jwarp.frontend.builtins.tiles import transforms as transforms
