"""Speed (appendix, a table). Seconds a method takes to rank the training set, for three kinds of damage.

    python -m experiments.speed --data DIR --methods all

Nothing else should run on the machine. A short ranking comes first, so that no method pays for the warm-up. Rankings by
a large network are stored, for other experiments to use.
"""

from __future__ import annotations

from pathlib import Path

from experiments.protocol import flipped_labels, noisy_inputs, poisoned_inputs
from experiments.rankings import chosen, keep, rank
from experiments.running import LATE, Plan, Row, Rows, Values, main, written

KINDS = {"label noise": flipped_labels, "random input noise": noisy_inputs, "adversarial poisoning": poisoned_inputs}

PRINTED = {  # seconds in the paper, on a Tesla K80: label noise, random input noise, adversarial poisoning
    "mnist": {"linear, sa": (16.4, 10.8, 14.3), "linear, gd": (11.2, 15.7, 10.0),
              "sgd_influence": (185.1, 188.2, 177.29), "ewc_as_printed": (9.8, 11.0, 14.5)},
    "cifar10": {"linear, sa": (1322.4, 1141.1, 1312.0), "linear, gd": (996.2, 978.4, 984.2),
                "sgd_influence": (8301.1, 8285.6, 7803.7), "ewc_as_printed": (496.3, 527.5, 528.9)},
}  # fmt: skip


def names(plan: Plan) -> tuple[str, ...]:
    return chosen(plan.methods)


def one_seed(plan: Plan, seed: int, rows: Rows) -> None:
    def row(name: str) -> Values:
        method, kind = name.split(": ")
        case = plan.case(seed, KINDS[kind])
        if "warm" not in case.cache:
            case.cache["warm"] = rank(case, "grad_dot", case.sets["query"])
        scores, seconds = rank(case, method, case.sets["query"])
        keep(case, method, scores, seconds)
        return [(0, "seconds", seconds)]

    rows.fill([f"{name}: {kind}" for kind in KINDS for name in names(plan)], row)


def draw(plan: Plan, rows: list[Row]) -> list[Path]:
    path = plan.folder / "table.md"
    written(path, table(rows, plan.on).encode())
    return [path]


def table(rows: list[Row], on: str) -> str:
    """Means over the seeds in Markdown, each also as a multiple of EWC-influence as printed."""
    seconds: dict[str, list[float]] = {}
    for row in rows:
        if row.measure == "seconds":
            seconds.setdefault(row.method, []).append(row.value)
    late = {row.method for row in rows if row.measure == LATE}
    mean = {name: sum(values) / len(values) for name, values in seconds.items()}
    names = list(dict.fromkeys(row.method.split(": ")[0] for row in rows))
    lines = ["| method | " + " | ".join(f"{kind}: seconds (times EWC) | paper, K80" for kind in KINDS) + " |",
             "|---" * (2 * len(KINDS) + 1) + "|"]  # fmt: skip
    for name in names:
        cells = []
        for i, kind in enumerate(KINDS):
            own, ewc = mean.get(f"{name}: {kind}"), mean.get(f"ewc_as_printed: {kind}")
            times = f" ({own / ewc:.1f})" if own is not None and ewc else ""
            missing = "given up" if f"{name}: {kind}" in late else "-"
            cells.append(missing if own is None else f"{own:.2f}{times}")
            printed = PRINTED.get(on, {}).get(name)
            cells.append(f"{printed[i]:g} ({printed[i] / PRINTED[on]['ewc_as_printed'][i]:.1f})" if printed else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main("speed")
