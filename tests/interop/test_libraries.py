"""Launches in other libraries, on JAX and PyTorch: the sections of docs/interop.md, and their numbers."""

import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"


def parts():
    """The code of each section, by its title; what all of them need is under the empty one."""
    found = {}
    for part in re.split(r"^(?=## )", PAGE.read_text(), flags=re.MULTILINE):
        title = re.match(r"## (.*)\n", part)
        found[title[1] if title else ""] = "\n".join(re.findall(r"```python\n(.*?)```", part, re.DOTALL))
    return found


PARTS = parts()


@pytest.fixture(scope="module")
def section(tmp_path_factory):
    """Runs sections of the page as one module, in a file, as kernels need their source."""
    folder = tmp_path_factory.mktemp("interop")

    def run(*titles):
        file = folder / f"{'_'.join(titles)}.py".lower()
        file.write_text("\n".join(PARTS[title] for title in ("", *titles)))
        names = {"__name__": file.stem, "__file__": str(file)}
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # those of the libraries are theirs
            exec(compile(file.read_text(), str(file), "exec"), names)
        return SimpleNamespace(**names)

    return run


def needs(*names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            pytest.importorskip(name)


def reference_forces(x, stiffness):
    """The chain in jax.numpy."""
    d = x[1:] - x[:-1]
    length = jnp.sqrt((d**2).sum(1, keepdims=True))
    pull = stiffness * (length - 0.2) * d / length
    none = jnp.zeros((1, 2), x.dtype)
    total = jnp.concatenate([pull, none]) - jnp.concatenate([none, pull]) + jnp.array([0.0, -0.1], x.dtype)
    return total.at[0].set(0.0)


def test_every_section_with_code_is_tested():
    tested = set(re.findall(r'section\("(\w+)"', Path(__file__).read_text()))
    assert tested == {title for title, code in PARTS.items() if title and code} - {"flax"} | {"optax"}


def test_optax(section):
    needs("optax")
    page = section("optax")
    assert float(page.found) == pytest.approx(7.0, rel=1e-3) and float(page.value) < 1e-4
    # A line search calls the loss under its own transformations.
    import optax

    solver = optax.lbfgs()
    k, state = jnp.float32(1.0), None
    state = solver.init(k)

    @jax.jit
    def update(k, state):
        value, slope = optax.value_and_grad_from_state(page.miss)(k, state=state)
        steps, state = solver.update(slope, state, k, value=value, grad=slope, value_fn=page.miss)
        return optax.apply_updates(k, steps), state

    for _ in range(4):
        k, state = update(k, state)
    assert float(k) == pytest.approx(7.0, rel=1e-3)


def test_equinox(section):
    needs("equinox")
    page = section("equinox")

    def end(k):
        def step(state, _):
            x, v = state
            v = 0.99 * (v + 0.05 * reference_forces(x, k))
            return (x + 0.05 * v, v), None

        return jax.lax.scan(step, (page.start, jnp.zeros_like(page.start)), length=40)[0][0]

    np.testing.assert_allclose(page.end, end(5.0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(page.slope_of_rope, jax.jit(jax.grad(lambda k: end(k)[:, 1].mean()))(5.0), rtol=1e-3)
    np.testing.assert_allclose(page.ends[2], end(6.0), rtol=1e-4, atol=1e-6)


def test_flax(section):
    needs("flax", "optax", "flax.nnx")
    page = section("optax", "flax")
    assert float(page.spring.stiffness[...]) == pytest.approx(7.0, rel=1e-3) and float(page.loss_of_flax) < 1e-4


def test_flax_linen(section):
    needs("flax.linen")
    import flax.linen as nn

    page = section()

    class Spring(nn.Module):
        @nn.compact
        def __call__(self, x):
            return page.forces(x, self.param("stiffness", lambda key: jnp.float32(5.0)))[0]

    weights = Spring().init(jax.random.key(0), page.start)
    slopes = jax.grad(lambda w: Spring().apply(w, 1.3 * page.start)[2, 1] + w["params"]["stiffness"] ** 2)(weights)
    expected = jax.grad(lambda k: reference_forces(1.3 * page.start, k)[2, 1] + k**2)(5.0)
    np.testing.assert_allclose(slopes["params"]["stiffness"], expected, rtol=1e-5)


def test_diffrax(section):
    needs("diffrax")
    page = section("diffrax")
    steps = 400

    def width_at_end(k):
        def step(state, _):
            def motion(s):
                return s[1], reference_forces(s[0], k) - 0.5 * s[1]

            def moved(s, d, by):
                return jax.tree.map(lambda a, b: a + by / steps * b, s, d)

            a = motion(state)
            b = motion(moved(state, a, 0.5))
            c = motion(moved(state, b, 0.5))
            d = motion(moved(state, c, 1.0))
            return moved(state, jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, a, b, c, d), 1.0), None

        x = 1.3 * page.start
        return jax.lax.scan(step, (x, jnp.zeros_like(x)), length=steps)[0][0][:, 0].mean()

    width, slope = jax.jit(jax.value_and_grad(width_at_end))(5.0)
    np.testing.assert_allclose(page.width, width, rtol=1e-4)
    np.testing.assert_allclose(page.implicit, width, rtol=1e-3)
    np.testing.assert_allclose(page.slope_of_width, slope, rtol=1e-3)
    np.testing.assert_allclose(page.by_second_solve, slope, rtol=1e-2)
    assert abs(float(slope)) > 1e-3


def test_lineax(section):
    needs("lineax")
    page = section("lineax")
    n = len(page.right)
    matrix = 2.5 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    solution = np.linalg.solve(matrix, np.asarray(page.right, float))
    np.testing.assert_allclose(page.solution, solution, rtol=1e-4, atol=1e-5)
    slope = -2 * solution @ np.linalg.solve(matrix, solution)
    np.testing.assert_allclose(page.slope_of_solution, slope, rtol=1e-4)
    np.testing.assert_allclose(page.solved(0.5, page.lx.GMRES(rtol=1e-6, atol=1e-6)), solution, rtol=1e-3, atol=1e-4)


def test_jaxtyping(section):
    needs("jaxtyping", "beartype")
    page = section("jaxtyping")
    np.testing.assert_allclose(page.typed, reference_forces(page.start, 5.0), rtol=1e-5, atol=1e-6)
    with pytest.raises(Exception, match="(?s)mass"):
        jax.jit(page.accelerations)(page.start, jnp.ones(5))


def test_jaxtyping_knows_what_launches_return_while_jax_traces(section):
    needs("jaxtyping")
    from jaxtyping import Array, Float, Float64

    page = section()

    def seen(x):
        (force,) = page.forces(x, 5.0)
        return isinstance(force, Float[Array, "6 2"]), isinstance(force, Float[Array, "5 2"] | Float64[Array, "6 2"])

    found = []
    jax.jit(lambda x: found.append(seen(x)))(page.start)
    jax.vmap(lambda x: found.append(seen(x)))(page.start[None])
    assert found == [(True, False)] * 2 and seen(page.start) == (True, False)


def close(found, expected):
    """Of tensors; what PyTorch has for that imports half of it."""
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=1e-5)


def test_pytorch(section):
    needs("torch")
    import torch

    torch.manual_seed(3)
    page = section("PyTorch")
    mass, momentum = (x.detach().requires_grad_() for x in (page.mass, page.momentum))
    gravity = torch.tensor([0.0, -9.81 * 0.02, 0.0])
    expected = momentum / mass[..., None] + gravity
    (expected**2).sum().backward()
    close(page.velocity, expected)
    close(page.mass.grad, mass.grad)
    close(page.momentum.grad, momentum.grad)


def test_tensors_that_require_gradients_are_refused_with_the_way_out(section):
    needs("torch")
    import torch

    page = section("PyTorch")
    with pytest.raises(page.wp.KernelTypeError, match=r"'mass'.*requires a gradient, which lends .* x.detach\(\) only"):
        page.wp.launch(
            page.normalized, (6, 5, 4), [page.mass, page.momentum.detach(), 0.0, 0.0], [torch.zeros(6, 5, 4, 3)]
        )


def test_pytorch_tensors_of_any_strides_in_a_longer_graph(section):
    needs("torch")
    import torch

    page = section("PyTorch")
    torch.manual_seed(4)
    base = torch.rand(4, 5, 6, requires_grad=True)
    wide = torch.randn(4, 5, 6, 6, requires_grad=True)

    def loss(step):
        velocity = step(base.exp().permute(2, 1, 0), wide.permute(2, 1, 0, 3)[..., ::2])
        return (velocity.sin() * velocity.flip(0)).sum()

    ours = torch.autograd.grad(loss(lambda m, p: page.GridStep.apply(m, p, -9.81, 0.02)), (base, wide))
    gravity = torch.tensor([0.0, -9.81 * 0.02, 0.0])
    theirs = torch.autograd.grad(loss(lambda m, p: p / m[..., None] + gravity), (base, wide))
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])
    twice = torch.autograd.grad(
        (page.GridStep.apply(base, wide[..., :3], 0.0, 0.0) ** 2).sum(), base, create_graph=True
    )[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        twice.sum().backward()


def test_the_example_grid_step_under_pytorch(section, monkeypatch):
    """The kernel with walls, against the closed form that examples/grid_gravity.py has of its gradients."""
    needs("torch", "matplotlib")
    import torch

    monkeypatch.syspath_prepend(str(PAGE.parents[1] / "examples"))
    import grid_gravity as example

    page = section("PyTorch")
    page.GridStep.forward.__globals__["normalized"] = example.grid_step
    random = np.random.default_rng(8)
    shape = (9, 8, 7)
    arrays = random.uniform(0.5, 2.0, shape), random.normal(size=(*shape, 3)), random.normal(size=(*shape, 3))
    mass, momentum, wanted = (torch.tensor(x, dtype=torch.float32) for x in arrays)
    mass.requires_grad_(), momentum.requires_grad_()
    velocity = page.GridStep.apply(mass, momentum, example.GRAVITY, example.STEP)
    (0.5 * ((velocity - wanted) ** 2).sum()).backward()
    grid = example.Grid(*(x.detach().numpy() for x in (mass, momentum, wanted)))
    found = example.Gradients(mass.grad.numpy(), momentum.grad.numpy())
    assert example.error(found, example.closed_form(grid)) < 1e-5
