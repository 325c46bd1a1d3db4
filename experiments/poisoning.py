"""Adversarial poisoning (Fig. 4 c, d). Are images that were made to do harm found?

    python -m experiments.poisoning --data DIR --seeds 0 1 2 3 4

30 % of the images of four classes (1, 7, 6 and 9; plane, bird, cat and dog) are attacked by the fast gradient sign
method, then labelled with what the victim predicts. Victims are networks of the same kind trained on the clean images,
three for MNIST and one for CIFAR-10. The network of the experiment is trained on the attacked images. Methods search
with half of its failures in the four classes. The step size of the attack is ours: .25 in MNIST and 8/255 in CIFAR-10,
for pixels from 0 to 1.
"""

from __future__ import annotations

from pathlib import Path

from experiments import input_noise
from experiments.protocol import poisoned_inputs
from experiments.running import Plan, Row, Rows, main

names = input_noise.names


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    input_noise.one_seed(plan, seed, rows, poisoned_inputs)


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    return input_noise.draw(plan, rows, "poisoned")


if __name__ == "__main__":
    main("poisoning")
