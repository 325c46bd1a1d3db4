"""Does a test die by a number when the mathematics is changed? `make mutants`

    python tests/mutants.py [--random 20] [--seed 0] [--only NAME]

Each mutation is made in a copy of the checkout, and the tests that should see it are run: those of `tests/exact/`
and, if they pass, those that mirror the package. Prints what became of each; the exit code is 1 if one survived.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("amends", "tests", "benchmarks", "experiments", "pyproject.toml")
MATHEMATICS = ("curvature", "editors", "posteriors", "remember", "methods")
ELSEWHERE = {"methods/library/loss.py": ("tests/committee/test_learned.py",)}  # that see a file of another package
SWAPPED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}


class Mutant(NamedTuple):
    """In a file of amends/, `old` becomes `new`, counted from the start of the line it is drawn from."""

    name: str
    file: str
    old: str
    new: str
    line: int | None = None

    def made(self, text: str) -> str:
        if self.line is None:
            if text.count(self.old) != 1:
                raise SystemExit(f"{self.name}: {self.old!r} is {text.count(self.old)} times in {self.file}; update it")
            return text.replace(self.old, self.new)
        lines = text.splitlines(keepends=True)
        lines[self.line - 1] = self.new
        return "".join(lines)


LISTED = [
    Mutant(
        "functional without N/|inputs|",
        "remember/predictions.py",
        "self.strength * len(train) / sum(len(f) for f in chosen)",
        "self.strength",
    ),
    Mutant(
        "functional(strength) ignored", "methods/library/functional.py", "Predictions(strength,", "Predictions(0.01,"
    ),
    Mutant(
        "damping times ten",
        "curvature/damped.py",
        "measured.raised(self.relative *",
        "measured.raised(10 * self.relative *",
    ),
    Mutant(
        "damping from the data times ten",
        "curvature/damped.py",
        "dot(left, left) / (2 *",
        "10 * dot(left, left) / (2 *",
    ),
    Mutant("damping of factors", "methods/solvers.py", "FACTORED = 50.0", "FACTORED = 10.0"),
    Mutant(
        "mean of the diagonal from one label",
        "curvature/implicit.py",
        "diagonal(f, theta, self.kind)",
        "diagonal(f, theta, Sampled())",
    ),
    Mutant("fine_tune(pull) ignored", "methods/library/fine_tune.py", "Method(Data(pull),", "Method(Data(0.0),"),
    Mutant("weighted() divides", "methods/base.py", "return raw * loss", "return raw / loss"),
    Mutant(
        "as printed at another rate",
        "methods/library/ewc.py",
        "Adam(rate=1e-3, epochs=100",
        "Adam(rate=1e-2, epochs=100",
    ),
    Mutant("as printed without a stop", "methods/library/ewc.py", "patience=5", "patience=1000"),
    Mutant("as printed under a guard", "methods/library/ewc.py", ", guarded=False", ""),
    Mutant("as printed by steps of 5", "methods/library/ewc.py", "every=None", "every=5"),
    Mutant("fisher_kernel off by N", "methods/library/linear.py", "Tangent(gamma=1.0)", "Tangent()"),
    Mutant("vcl(prior) ignored", "methods/library/vcl.py", "FittedSpread(prior,", "FittedSpread(None,"),
    Mutant("vcl(draws) not for the fit", "methods/library/vcl.py", "FittedSpread(prior, draws,", "FittedSpread(prior,"),
    Mutant("vcl deletes at another rate", "editors/variational.py", "Adam(rate=0.003", "Adam(rate=0.001"),
    Mutant(
        "a gradient in the order of its first term", "editors/climb.py", "else {k: grad[k] for k in theta}", "else grad"
    ),
    Mutant("ogd(hold) ignored", "methods/library/ogd.py", "editor, hold)", "editor, 0.2)"),
    Mutant("ogd(unlearn) ignored", "methods/library/ogd.py", "unlearn or Ascent(", "Ascent("),
    Mutant("ewc(hold) ignored", "methods/library/ewc.py", "climb, unlearn, bounded, hold)", "climb, unlearn, bounded)"),
    Mutant("newton(gamma) ignored", "methods/library/newton.py", "Step(gamma,", "Step(None,"),
    Mutant(
        "newton with the curvature of D",
        "editors/step.py",
        "natural_gradient(after, factor",
        "natural_gradient(posterior, factor",
    ),
    Mutant("linear(gamma) ignored", "methods/library/linear.py", "Tangent(gamma))", "Tangent())"),
    Mutant(
        "ewc(gamma) ignored",
        "methods/library/ewc.py",
        "Laplace(Diagonal(kind, prior), gamma=gamma)",
        "Laplace(Diagonal(kind, prior))",
    ),
    Mutant(
        "kfac_ewc(gamma) ignored",
        "methods/library/ewc.py",
        "Laplace(Kronecker(kind, prior), gamma=gamma)",
        "Laplace(Kronecker(kind, prior))",
    ),
    Mutant("γ without its 2", "remember/laplace.py", "2 / (self.gamma * size)", "1 / (self.gamma * size)"),
    Mutant("si(strength) ignored", "methods/library/si.py", "PathIntegral(trace, strength)", "PathIntegral(trace)"),
    Mutant("si's replay stiffer", "remember/path_integral.py", "scaled(raised, work / more)", "scaled(raised, 1.0)"),
    Mutant(
        "relatif(parameters) ignored", "methods/library/relatif.py", '"parameters" if parameters else "loss"', '"loss"'
    ),
    Mutant(
        "sgd_influence(corrected) ignored",
        "methods/library/sgd_influence.py",
        "SGDInfluence(trace, corrected,",
        "SGDInfluence(trace, True,",
    ),
    Mutant(
        "laplace_mc(seed) ignored", "methods/library/laplace_mc.py", "draws=draws, seed=seed", "draws=draws, seed=0"
    ),
    Mutant("ensemble(scale) ignored", "methods/library/ensemble.py", "samples, scale, seed", "samples, 0.1, seed"),
    Mutant(
        "shapley(ridge) ignored",
        "methods/library/shapley.py",
        "Shapley(permutations, ridge,",
        "Shapley(permutations, 1.0,",
    ),
    Mutant("diagonal(kind) ignored", "methods/solvers.py", "Damped(Diagonal(kind)", "Damped(Diagonal(EXACT)"),
    Mutant("kronecker(kind) ignored", "methods/solvers.py", "Damped(Kronecker(kind)", "Damped(Kronecker(EXACT)"),
    Mutant("ekfac(kind) ignored", "methods/solvers.py", "Damped(EKFAC(kind)", "Damped(EKFAC(EXACT)"),
    Mutant("sa(kind) ignored", "methods/solvers.py", "LiSSA(kind, tolerance", "LiSSA(EXACT, tolerance"),
    Mutant("sa(steps) ignored", "methods/solvers.py", "steps=steps, batch=batch", "batch=batch"),
    Mutant(
        "cg(steps) ignored",
        "methods/solvers.py",
        "CG(kind, tolerance=tolerance, steps=steps)",
        "CG(kind, tolerance=tolerance)",
    ),
    Mutant("gd(tolerance) ignored", "methods/solvers.py", "GD(kind, tolerance=tolerance, steps", "GD(kind, steps"),
    Mutant("as printed in one order", "methods/library/ewc.py", "every=None, seed=seed", "every=None"),
    Mutant(
        "fine_tune(seed) ignored",
        "methods/library/fine_tune.py",
        "climb = training(rate, epochs, batch, seed)",
        "climb = training(rate, epochs, batch)",
    ),
    Mutant(
        "retrain(seed) ignored",
        "methods/library/retrain.py",
        "training(rate, epochs, batch, seed)",
        "training(rate, epochs, batch)",
    ),
    Mutant("functional(bounded) ignored", "methods/library/functional.py", "bounded=bounded, ", ""),
    Mutant("functional(unlearn) ignored", "methods/library/functional.py", ", **chosen(unlearn=unlearn)", ""),
    Mutant(
        "kfac_ewc(bounded) ignored",
        "methods/library/ewc.py",
        "climb, unlearn, bounded, hold, forget)",
        "climb, unlearn, False, hold, forget)",
    ),
    Mutant(
        "online_ewc(bounded) ignored",
        "methods/library/ewc.py",
        "quadratic(remember, climb, unlearn, bounded)",
        "quadratic(remember, climb, unlearn, False)",
    ),
    Mutant("si(bounded) ignored", "methods/library/si.py", "climb, unlearn, bounded)", "climb, unlearn, False)"),
    Mutant(
        "laplace_mc(climb) ignored",
        "methods/library/laplace_mc.py",
        "Mode() if climb is None else Mode(climb)",
        "Mode()",
    ),
    Mutant(
        "sgd_influence(trace) ignored",
        "methods/library/sgd_influence.py",
        "SGDInfluence(trace, corrected,",
        "SGDInfluence(None, corrected,",
    ),
]
CHANGE_NOTHING = {  # the name of a drawn mutant that changes no result: why
    "curvature/solvers.py: top *= 2 → top *= 4": "a shorter step where one went too far; it ends at the same solution",
    "curvature/dense.py: well = int(info) == 0 and float(diagonal.min()) > 1e-6 * float(diagonal.max()) → well = "
    "int(info) == 0 and float(diagonal.min()) > 2e-06 * float(diagonal.max())": "either way of solving is exact there",
    "curvature/solvers.py: look, mean = 2 * look, zeros_like(vector) → look, mean = 4 * look, zeros_like(vector)": (
        "how often stochastic approximation looks whether it is there; it ends within its tolerance either way"
    ),
    "curvature/implicit.py: return replace(self, parts=(*self.parts, *((f, t, s * sign) for f, t, s in other.parts)))"
    " → return replace(self, parts=(*self.parts, *((f, t, s / sign) for f, t, s in other.parts)))": (
        "a sign is 1 or -1"
    ),
    "remember/path_integral.py: delta = {k: size * normal_like(v, noise).sign() for k, v in mean.items()} → delta = "
    "{k: size / normal_like(v, noise).sign() for k, v in mean.items()}": "a sign is 1 or -1",
}


def numbers(source: str, node: ast.AST) -> tuple[int, int, str] | None:
    """Where on its line a node is changed, and to what: an operator swapped, or a number doubled."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED and node.left.end_lineno == node.right.lineno:
        sign, other = SWAPPED[type(node.op)]
        line = source.splitlines()[node.right.lineno - 1].encode()
        between = line[node.left.end_col_offset : node.right.col_offset].decode()
        if between.count(sign) == 1:
            at = node.left.end_col_offset + between.index(sign)
            return at, at + 1, other
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in (0, 1):
        return node.col_offset, node.end_col_offset or node.col_offset, repr(2 * node.value)
    return None


def possible() -> Iterator[Mutant]:
    """Every swapped operator and doubled number inside a function of the mathematics, but for texts and types."""
    for package in MATHEMATICS:
        for path in sorted((ROOT / "amends" / package).rglob("*.py")):
            if path.name in ("default.py", "table.py", "by_name.py"):
                continue
            source = path.read_text(encoding="utf-8")
            for function in [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]:
                for node in (n for statement in function.body for n in ast.walk(statement)):
                    change = numbers(source, node)
                    if change is None or function.name == "__post_init__":
                        continue
                    line = source.splitlines(keepends=True)[node.lineno - 1].encode()
                    if node.lineno != getattr(getattr(node, "right", node), "lineno", 0):
                        continue
                    new = (line[: change[0]] + change[2].encode() + line[change[1] :]).decode()
                    file = path.relative_to(ROOT / "amends").as_posix()
                    name = f"{file}: {line.decode().strip()} → {new.strip()}"
                    yield Mutant(name, file, "", new, node.lineno)


def killed(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails in the copy with the mutation; the copy is put back."""
    path = copy / "amends" / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(mutant.made(whole), encoding="utf-8")
    package = mutant.file.split("/")[0]
    mirror = (f"tests/{package}", "tests/posteriors", *ELSEWHERE.get(mutant.file, ()))
    try:
        return any(failed(copy, tests) for tests in (("tests/exact",), mirror))
    finally:
        path.write_text(whole, encoding="utf-8")


def failed(copy: Path, tests: tuple[str, ...]) -> bool:
    env = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=900)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the tests do not run: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.returncode == 1


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--random", type=int, default=20, help="how many are drawn beside those listed")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--only", help="a part of the names of those to run")
    args = ask.parse_args()
    drawn = random.Random(args.seed).sample(list(possible()), args.random)
    chosen = [m for m in (*LISTED, *drawn) if not args.only or args.only in m.name]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        if failed(copy, ("tests/exact",)):
            raise SystemExit("the tests fail without a mutation; mend them first")
        for mutant in chosen:
            if mutant.name in CHANGE_NOTHING:
                print(f"changes nothing  {mutant.name}: {CHANGE_NOTHING[mutant.name]}", flush=True)
                continue
            dead = killed(mutant, copy)
            print(f"{'killed  ' if dead else 'SURVIVED'}  {mutant.name}", flush=True)
            survived += [] if dead else [mutant.name]
    print(f"{len(chosen)} mutations, {len(survived)} survived")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
