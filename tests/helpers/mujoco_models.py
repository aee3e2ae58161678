"""Small models of MuJoCo for tests of mujoco_warp: their XML, and a state to start from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

PENDULUM = """
<mujoco>
  <option timestep="0.01" integrator="Euler"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="a" type="hinge" axis="0 1 0" damping="0.1" stiffness="0.5"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.5" mass="1"/>
      <body pos="0 0 -0.5">
        <joint name="b" type="hinge" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.5" mass="0.6"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="b" gear="2"/></actuator>
</mujoco>
"""

CARTPOLE = """
<mujoco>
  <option timestep="0.01" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="slide" type="slide" axis="1 0 0" damping="0.5"/>
      <geom type="box" size="0.2 0.1 0.1" mass="1"/>
      <body>
        <joint name="hinge" type="hinge" axis="0 1 0" damping="0.02" stiffness="0.3"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0 0 1" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" gear="10"/></actuator>
</mujoco>
"""

SPHERE = """
<mujoco>
  <option timestep="0.005" solver="{solver}" iterations="10" ls_iterations="10"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body pos="0 0 0.12"><freejoint/><geom type="sphere" size="0.1" mass="1" friction="1.2"/></body>
  </worldbody>
</mujoco>
"""

HOPPER = """
<mujoco>
  <option timestep="0.005" solver="{solver}" integrator="{integrator}" iterations="20" ls_iterations="20"/>
  <default>
    <joint type="hinge" axis="0 -1 0" damping="1" armature="0.1"/>
    <geom type="capsule" friction="0.9 0.005 0.0001"/>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="30"/>
  </default>
  <worldbody>
    <geom type="plane" size="20 20 0.1"/>
    <body pos="0 0 1.249">
      <joint type="slide" axis="1 0 0" damping="0" armature="0"/>
      <joint type="slide" axis="0 0 1" damping="0" armature="0"/>
      <joint axis="0 1 0" damping="0" armature="0"/>
      <geom fromto="0 0 0.2 0 0 -0.2" size="0.05" contype="0" conaffinity="0"/>
      <site name="torso"/>
      <body pos="0 0 -0.2">
        <joint name="hip" range="-150 0"/>
        <geom fromto="0 0 0 0 0 -0.45" size="0.05" contype="0" conaffinity="0"/>
        <body pos="0 0 -0.45">
          <joint name="knee" range="-150 0"/>
          <geom fromto="0 0 0 0 0 -0.5" size="0.04" contype="0" conaffinity="0"/>
          <body pos="0 0 -0.5">
            <joint name="ankle" range="-45 45"/>
            <geom fromto="-0.13 0 -0.04 0.26 0 -0.04" size="0.06" friction="2 0.005 0.0001"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="hip"/><motor joint="knee"/><motor joint="ankle"/></actuator>
  <sensor><framepos objtype="site" objname="torso"/><velocimeter site="torso"/><jointpos joint="knee"/></sensor>
</mujoco>
"""

# A pendulum that hangs on a rod: a loop closed by equality constraints, a limit and friction in joints.
LINKAGE = """
<mujoco>
  <option timestep="0.005" iterations="20" ls_iterations="20"/>
  <default><geom type="capsule" size="0.03" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="first" axis="0 1 0" range="-100 60" limited="true"/>
      <geom fromto="0 0 0 0.4 0 0"/>
      <body name="middle" pos="0.4 0 0">
        <joint axis="0 1 0" frictionloss="0.05"/>
        <geom fromto="0 0 0 0.5 0 -0.3"/>
      </body>
    </body>
    <body name="last" pos="0.9 0 1">
      <joint name="last" axis="0 1 0" damping="0.1"/>
      <geom fromto="0 0 0 0 0 -0.3"/>
    </body>
    <body pos="0 1 1"><joint name="follower" axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0"/></body>
  </worldbody>
  <equality>
    <connect body1="middle" body2="last" anchor="0.5 0 -0.3"/>
    <joint joint1="follower" joint2="first" polycoef="0 0.5 0 0 0"/>
  </equality>
</mujoco>
"""

# An arm with what else models have: a weld, tendons with limits and springs, a ball joint, servos, filters, sensors.
ARM = """
<mujoco>
  <option timestep="0.005" iterations="20" ls_iterations="20" integrator="implicitfast"/>
  <default>
    <geom type="capsule" size="0.03" contype="0" conaffinity="0"/>
    <joint damping="0.2" armature="0.01"/>
  </default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" range="-40 20" limited="true"/>
      <geom fromto="0 0 0 0.4 0 0" mass="1"/>
      <site name="upper" pos="0.2 0 0.03"/>
      <body name="lower" pos="0.4 0 0">
        <joint name="elbow" axis="0 1 0" stiffness="1" springref="20"/>
        <geom fromto="0 0 0 0.3 0 0" mass="0.6"/>
        <site name="hand" pos="0.3 0 0"/>
        <body name="cup" pos="0.3 0 0">
          <joint name="wrist" type="ball" range="0 60" limited="true"/>
          <geom fromto="0 0 0 0 0.05 -0.2" mass="0.3"/>
        </body>
      </body>
    </body>
    <body name="weight" pos="0 0.5 1"><freejoint/><geom fromto="0 0 0 0.2 0 0" mass="0.5"/></body>
  </worldbody>
  <tendon>
    <fixed name="both" limited="true" range="-0.3 0.3">
      <joint joint="shoulder" coef="1"/><joint joint="elbow" coef="-0.5"/>
    </fixed>
    <spatial name="string" stiffness="5" damping="0.1" springlength="0.1">
      <site site="upper"/><site site="hand"/>
    </spatial>
  </tendon>
  <equality><weld body1="weight" relpose="0 0.5 1 1 0 0 0" solref="0.05 1"/></equality>
  <actuator>
    <position joint="shoulder" kp="20" kv="1" ctrlrange="-1 1" ctrllimited="true"/>
    <velocity joint="elbow" kv="2"/>
    <general name="filtered" tendon="both" dyntype="filter" dynprm="0.05" gainprm="3"
      biastype="affine" biasprm="0 -2 -0.1"/>
  </actuator>
  <sensor>
    <gyro site="hand"/><accelerometer site="hand"/><force site="upper"/><tendonpos tendon="string"/>
    <actuatorfrc actuator="filtered"/><ballquat joint="wrist"/><subtreecom body="lower"/>
  </sensor>
</mujoco>
"""

# Four legs with motors below a body that is free, with feet that are on the ground.
_LEG = """
<body pos="{} {} 0">
  <joint name="hip{}" axis="0 1 0" range="-60 60"/>
  <geom fromto="0 0 0 0.05 0 -0.17" mass="0.5"/>
  <body pos="0.05 0 -0.17">
    <joint name="knee{}" axis="0 1 0" range="-90 60"/>
    <geom fromto="0 0 0 -0.05 0 -0.15" mass="0.3"/>
    <geom type="sphere" size="0.03" pos="-0.05 0 -0.15" mass="0.1" contype="1" conaffinity="1"/>
  </body>
</body>
"""
_HIPS = ((0.17, 0.12), (0.17, -0.12), (-0.17, 0.12), (-0.17, -0.12))
QUADRUPED = f"""
<mujoco>
  <option timestep="0.004" iterations="20" ls_iterations="20" integrator="implicitfast"/>
  <default>
    <joint damping="0.5" armature="0.01" limited="true"/>
    <geom type="capsule" size="0.02" friction="0.8 0.01 0.001" contype="0" conaffinity="0"/>
    <motor gear="15" ctrllimited="true" ctrlrange="-1 1"/>
  </default>
  <worldbody>
    <geom type="plane" size="5 5 0.1" contype="1" conaffinity="1"/>
    <body name="trunk" pos="0 0 0.34">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="4" contype="1" conaffinity="1"/>
      <site name="imu"/>
      {"".join(_LEG.format(*at, i, i) for i, at in enumerate(_HIPS))}
    </body>
  </worldbody>
  <actuator>{"".join(f'<motor joint="hip{i}"/><motor joint="knee{i}"/>' for i in range(4))}</actuator>
  <sensor><accelerometer site="imu"/><gyro site="imu"/><subtreelinvel body="trunk"/></sensor>
</mujoco>
"""

# A finger that tendons move, around a cylinder and a sphere, by a muscle among others.
FINGER = """
<mujoco>
  <option timestep="0.002" iterations="20" ls_iterations="20" integrator="implicitfast"/>
  <default>
    <geom type="capsule" size="0.008" mass="0.02" contype="0" conaffinity="0"/>
    <joint axis="0 1 0" damping="0.002" armature="0.0001" limited="true"/>
  </default>
  <worldbody>
    <site name="above" pos="-0.03 0 0.515"/>
    <site name="below" pos="-0.03 0 0.485"/>
    <body pos="0 0 0.5">
      <joint name="first" range="-20 90"/>
      <geom fromto="0 0 0 0.05 0 0"/>
      <geom name="pulley" type="cylinder" size="0.01 0.01" zaxis="0 1 0"/>
      <site name="over" pos="0 0 0.02"/><site name="under" pos="0 0 -0.02"/>
      <site name="back1" pos="0.025 0 0.012"/><site name="palm1" pos="0.025 0 -0.012"/>
      <body pos="0.05 0 0">
        <joint name="second" range="-10 100"/>
        <geom fromto="0 0 0 0.03 0 0"/>
        <geom name="ball" type="sphere" size="0.009"/>
        <site name="over2" pos="0 0 0.02"/><site name="back2" pos="0.015 0 0.011"/>
        <body pos="0.03 0 0">
          <joint name="third" range="-10 80" stiffness="0.01"/>
          <geom fromto="0 0 0 0.02 0 0"/><site name="tip" pos="0.01 0 0.009"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <spatial name="flexor" range="0 0.2" stiffness="3" damping="0.05" springlength="0.06">
      <site site="above"/><geom geom="pulley" sidesite="over"/><site site="back1"/>
      <geom geom="ball" sidesite="over2"/><site site="back2"/><site site="tip"/>
    </spatial>
    <spatial name="extensor" frictionloss="0.01">
      <site site="below"/><geom geom="pulley" sidesite="under"/><site site="palm1"/>
      <pulley divisor="2"/><site site="palm1"/><site site="tip"/>
    </spatial>
    <fixed name="couple" limited="true" range="-0.2 0.2">
      <joint joint="second" coef="1"/><joint joint="third" coef="-0.7"/>
    </fixed>
  </tendon>
  <equality><tendon tendon1="couple" solref="0.02 1"/></equality>
  <actuator>
    <muscle name="muscle" tendon="extensor" ctrlrange="0 1" ctrllimited="true" lengthrange="0.05 0.2" force="5"/>
    <position tendon="flexor" kp="50"/>
    <cylinder joint="first" timeconst="0.05" area="0.01"/>
  </actuator>
  <sensor><tendonvel tendon="flexor"/><tendonpos tendon="extensor"/><actuatorfrc actuator="muscle"/></sensor>
</mujoco>
"""

# Balls with springs below each other in wind, and a body that is free and driven at a site, seen from another one.
BALLS = """
<mujoco>
  <option timestep="0.004" integrator="implicitfast" density="1.2" viscosity="0.02" wind="1 0.3 0"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint type="ball" stiffness="2" damping="0.1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" mass="1"/>
      <body pos="0.3 0 0" gravcomp="0.7">
        <joint type="ball" damping="0.05" armature="0.01"/>
        <geom type="ellipsoid" size="0.1 0.05 0.03" pos="0.1 0 0" mass="0.5" fluidshape="ellipsoid"/>
        <body pos="0.2 0 0">
          <joint name="slide" type="slide" axis="1 1 0" stiffness="10" springref="0.1" damping="0.3"/>
          <geom type="box" size="0.05 0.05 0.02" mass="0.2"/><site name="end"/>
        </body>
      </body>
    </body>
    <body name="free" pos="0 1 1">
      <joint type="free" damping="0.05"/>
      <geom type="cylinder" size="0.1 0.05" mass="0.7"/><site name="side" pos="0.1 0 0"/>
    </body>
  </worldbody>
  <actuator><motor joint="slide" gear="3"/><motor site="side" refsite="end" gear="1 0.5 0.2 0.1 0.2 0.3"/></actuator>
  <sensor>
    <gyro site="end"/><accelerometer site="side"/><velocimeter site="end"/><framequat objtype="site" objname="end"/>
    <framelinvel objtype="site" objname="side"/><subtreelinvel body="free"/><subtreeangmom body="free"/>
    <force site="end"/><torque site="end"/><frameangacc objtype="site" objname="side"/>
  </sensor>
</mujoco>
"""

# What moves: each kind of actuator, on joints, on a tendon over a pulley, and as a crank.
DRIVES = """
<mujoco>
  <option timestep="0.004" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="0" type="capsule" size="0.03"/><joint damping="0.3"/></default>
  <worldbody>
    <site name="wall" pos="0 0.3 1.2"/>
    <body pos="0 0 1">
      <joint name="first" axis="0 1 0" actuatorfrcrange="-1 0.5"/>
      <geom fromto="0 0 0 0.3 0 0"/><site name="elbow" pos="0.3 0 0"/>
      <body pos="0.3 0 0">
        <joint name="second" axis="0 0 1" armature="0.02"/>
        <geom fromto="0 0 0 0.2 0 0.1"/>
        <body pos="0.2 0 0.1">
          <joint name="third" axis="1 0 0"/>
          <geom fromto="0 0 0 0.1 0.1 0"/><site name="hand" pos="0.05 0.05 0"/>
        </body>
      </body>
    </body>
    <body pos="0 2 1"><joint axis="0 1 0"/><geom fromto="0 0 0 0.2 0 0"/><site name="pin" pos="0.2 0 0"/></body>
    <body pos="0.3 2 1">
      <joint type="slide" axis="1 0 0"/><geom fromto="0 0 0 0.1 0 0"/><site name="slider" zaxis="1 0 0"/>
    </body>
  </worldbody>
  <tendon>
    <spatial name="rope" stiffness="3" springlength="0.2 0.3" damping="0.3">
      <site site="wall"/><site site="elbow"/><pulley divisor="2"/><site site="elbow"/><site site="hand"/>
    </spatial>
  </tendon>
  <actuator>
    <position name="servo" joint="first" kp="15" kv="1"/><velocity joint="second" kv="2"/>
    <damper joint="third" kv="3" ctrlrange="0 1"/>
    <general joint="second" dyntype="integrator" gaintype="affine" gainprm="1 0.5 0.2" biastype="affine"
      biasprm="0.1 -1 -0.2"/>
    <general joint="third" dyntype="filterexact" dynprm="0.1" gainprm="2" forcerange="-0.1 3"/>
    <general tendon="rope" dyntype="filter" dynprm="0.05" gainprm="-3" actlimited="true" actrange="-0.5 0.5"/>
    <muscle joint="first" lengthrange="-1 1" force="4" timeconst="0.02 0.05"/>
    <motor cranksite="pin" slidersite="slider" cranklength="0.35" gear="2"/>
    <motor jointinparent="third" gear="1.5"/><cylinder tendon="rope" timeconst="0.04" area="0.02"/>
  </actuator>
  <sensor>
    <jointpos joint="first"/><jointvel joint="second"/><tendonpos tendon="rope"/><tendonvel tendon="rope"/>
    <actuatorpos actuator="servo"/><actuatorvel actuator="servo"/><actuatorfrc actuator="servo"/>
    <jointactuatorfrc joint="first"/>
  </sensor>
</mujoco>
"""

# What holds: each kind of equality, friction in joints and tendons, limits of a hinge and of a ball.
HELD = """
<mujoco>
  <option timestep="0.004" iterations="30" ls_iterations="30"/>
  <default><geom contype="0" conaffinity="0" type="capsule" size="0.03"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="first" axis="0 1 0" frictionloss="0.2" damping="0.1"/>
      <geom fromto="0 0 0 0.3 0 0"/><site name="end" pos="0.3 0 0"/>
    </body>
    <body name="link" pos="0.3 0 1.001">
      <freejoint/><geom fromto="0 0 0 0.3 0 0.1"/><site name="start"/>
    </body>
    <body name="last" pos="0.6 0 1.1">
      <joint type="ball" range="0 10" limited="true"/><geom fromto="0 0 0 0.1 0 0.2"/>
    </body>
    <body pos="0 1 1">
      <joint name="second" axis="0 1 0" range="-5 5" limited="true"/><geom fromto="0 0 0 0.3 0 0"/>
      <body pos="0.3 0 0">
        <joint name="third" axis="1 1 0" damping="0.2"/>
        <geom fromto="0 0 0 0.2 0.1 0"/><site name="tip" pos="0.1 0 0"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="sum" frictionloss="0.05"><joint joint="second" coef="1"/><joint joint="third" coef="0.4"/></fixed>
    <spatial name="line" damping="0.2" armature="0.02"><site site="end"/><site site="tip"/></spatial>
  </tendon>
  <equality>
    <weld site1="end" site2="start" torquescale="0.7" solref="0.03 0.9"/>
    <connect body1="link" body2="last" anchor="0.3 0 0.1"/>
    <joint joint1="first" joint2="third" polycoef="0.01 0.5 0.2 -0.3 0.1"/>
    <tendon tendon1="sum" tendon2="line" polycoef="0 0.2 0.1 0 0"/>
  </equality>
  <actuator>
    <position joint="second" kp="30" dampratio="1"/><intvelocity joint="third" kp="10" actrange="-1 1"/>
  </actuator>
</mujoco>
"""

MODELS = {
    "pendulum": PENDULUM,
    "cartpole": CARTPOLE,
    "sphere, Newton": SPHERE.format(solver="Newton"),
    "sphere, CG": SPHERE.format(solver="CG"),
    "sphere that slides": SPHERE.format(solver="Newton").replace("0.12", "0.0995"),
    "linkage": LINKAGE,
    "hopper": HOPPER.format(solver="Newton", integrator="Euler"),
    "hopper, bent": HOPPER.format(solver="Newton", integrator="Euler"),
    "hopper, CG": HOPPER.format(solver="CG", integrator="implicitfast"),
    "hopper, RK4": HOPPER.format(solver="Newton", integrator="RK4"),
    "arm": ARM,
    "quadruped": QUADRUPED,
    "finger": FINGER,
    "balls": BALLS,
    "drives": DRIVES,
    "held": HELD,
    "humanoid": "humanoid/humanoid.xml",  # mujoco_warp's own
    "humanoid in the air": "humanoid/humanoid.xml",
}
# How far the coordinates of a model start from where its XML has them; others start there, and move.
_SPREAD = {"pendulum": 1.0, "cartpole": 1.0, "finger": 0.1, "balls": 0.1, "drives": 0.1, "held": 0.1}


def load(name: str) -> tuple[Any, Any]:
    """A model and its state to start from, which is the same each time."""
    import mujoco

    text = MODELS[name]
    if text.lstrip().startswith("<"):
        model = mujoco.MjModel.from_xml_string(text)
    else:
        spec = importlib.util.find_spec("mujoco_warp")
        assert spec is not None and spec.origin is not None
        model = mujoco.MjModel.from_xml_path(str(Path(spec.origin).parent / "test_data" / text))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    spread = _SPREAD.get(name, 0.0)
    if spread:
        data.qpos[:] += spread * rng.normal(size=model.nq)
        mujoco.mj_normalizeQuat(model, data.qpos)
    data.qvel[:] = (spread or 0.1) * rng.normal(size=model.nv)
    if name == "humanoid in the air":
        data.qpos[2] += 1.0
        data.qpos[7:] = 0.2 * rng.normal(size=model.nq - 7)
    if name == "hopper, bent":  # on its foot, and away from the ends of its joints, where derivatives jump
        data.qpos[1:] = -0.0033, 0.0, -0.05, -0.05, 0.1
    if name == "sphere that slides":
        data.qvel[:3] = 0.5, 0.3, -0.1
    data.act[:] = 0.2 * rng.normal(size=model.na) if name == "drives" else 0.0
    data.ctrl[:] = 0.3 * rng.normal(size=model.nu)
    if name == "drives":  # mujoco_warp and MuJoCo differ where the control of a damper is out of its range
        data.ctrl[:] = np.abs(data.ctrl)
    mujoco.mj_forward(model, data)
    return model, data
