"""Random input noise (Fig. 4 a, b). Does a method leave harmless noise alone, and find the noise that does harm?

    python -m experiments.random_noise --data DIR --seeds 0 1 2 3 4

30 % of the images of four classes are made noisy: 1, 7, 6 and 9 with salt and pepper in MNIST; plane, bird, cat and dog
with Gaussian noise in CIFAR-10. Methods search with half of the failures in these classes. The noise levels are ours:
30 % of the pixels, and a standard deviation of 50 of 255.
"""

from __future__ import annotations

from pathlib import Path

from experiments import input_noise
from experiments.protocol import noisy_inputs
from experiments.running import Plan, Row, Rows, main

names = input_noise.names


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    input_noise.one_seed(plan, seed, rows, noisy_inputs)


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    return input_noise.draw(plan, rows, "random noise")


if __name__ == "__main__":
    main("random-noise")
