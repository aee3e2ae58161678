"""A cartpole and a hopper for MuJoCo, and strobe pictures of them from the side."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap

from drawing import INK, WARM

# The pole hangs down at 0 and stands at pi.
CARTPOLE = """
<mujoco>
  <option timestep="0.02" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body>
      <joint type="slide" axis="1 0 0" damping="0.2" name="slide"/>
      <geom type="capsule" fromto="-0.15 0 0 0.15 0 0" size="0.06" mass="1"/>
      <body>
        <joint type="hinge" axis="0 1 0" damping="0.005"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.6" size="0.03" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" gear="15"/></actuator>
</mujoco>
"""

HOPPER = """
<mujoco>
  <option timestep="0.006" iterations="10" ls_iterations="10"/>
  <default>
    <joint type="hinge" axis="0 -1 0" damping="1" armature="0.1"/>
    <geom type="capsule" friction="1 0.005 0.0001"/>
    <motor gear="120"/>
  </default>
  <worldbody>
    <geom type="plane" size="20 20 0.1"/>
    <body pos="0 0 0.9">
      <joint type="slide" axis="1 0 0" damping="0" armature="0"/>
      <joint type="slide" axis="0 0 1" damping="0" armature="0"/>
      <joint axis="0 1 0" damping="0" armature="0"/>
      <geom fromto="0 0 0.2 0 0 -0.2" size="0.05" contype="0" conaffinity="0"/>
      <body pos="0 0 -0.2" euler="0 40 0">
        <joint name="hip" range="-100 60"/>
        <geom fromto="0 0 0 0 0 -0.4" size="0.05" contype="0" conaffinity="0"/>
        <body pos="0 0 -0.4" euler="0 -80 0">
          <joint name="knee" range="-80 80"/>
          <geom fromto="0 0 0 0 0 -0.4" size="0.04" contype="0" conaffinity="0"/>
          <body pos="0 0 -0.4" euler="0 40 0">
            <joint name="ankle" range="-60 60"/>
            <geom fromto="-0.15 0 -0.04 0.2 0 -0.04" size="0.05"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="hip"/><motor joint="knee"/><motor joint="ankle"/></actuator>
</mujoco>
"""


def links(model: Any, qpos: np.ndarray) -> np.ndarray:
    """The ends of all capsules, seen from the side, with these coordinates: (capsules, 2, 2)."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    found = []
    for k in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE):
        along = data.geom_xmat[k].reshape(3, 3)[:, 2] * model.geom_size[k, 1]
        found.append([(data.geom_xpos[k] - along)[[0, 2]], (data.geom_xpos[k] + along)[[0, 2]]])
    return np.array(found)


def strobe(axes: Axes, poses: list[np.ndarray], shown: int = 12) -> None:
    """Some poses of a motion over each other, the late ones darker."""
    colors = LinearSegmentedColormap.from_list("motion", ["#d5dbe6", INK])
    for k in np.linspace(0, len(poses) - 1, shown).astype(int):
        last = k == len(poses) - 1
        color = WARM if last else colors(k / len(poses))
        axes.add_collection(LineCollection(list(poses[k]), colors=[color], linewidths=4, capstyle="round"))
    axes.axhline(0.0, color="#999999", linewidth=0.8)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.1)
    axes.set(xlabel="m", ylabel="m")
