"""The repair of a Hugging Face model as a LoRA adapter that peft loads, cut to a rank, and what the cut costs."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amends.errors import BadInput, at_least
from amends.evidence.prepare import entry
from amends.export.files import Exported, as_run, library, place, write_folder
from amends.models.huggingface import quiet
from amends.patches.make import REFUSED, in_network
from amends.workflow.patching import repaired_by

RANK = 8


@dataclass(frozen=True, eq=False)
class Adapter:
    """The contents of an adapter: for each linear layer that moved two factors and the change of its bias; other parts
    that moved are in it as a whole."""

    factors: Mapping[str, tuple[Tensor, Tensor, Tensor | None]]  # A [rank, inputs], B [outputs, rank], bias
    whole: Mapping[str, nn.Module]
    left: float  # share of the squared change of the linear layers that the rank does not hold

    @classmethod
    def between(cls, before: nn.Module, after: nn.Module, rank: int) -> Adapter:
        factors, whole, lost, total = {}, {}, 0.0, 0.0
        parts = dict(after.named_modules())
        shared = _shared(before)
        for name, part in before.named_modules():
            old, new = (dict(m.named_parameters(recurse=False)) for m in (part, parts[name]))
            moved = [k for k in old if not torch.equal(old[k], new[k])]
            if not moved:
                continue
            if not _linear(part) or "weight" not in moved or id(old["weight"]) in shared:
                whole[name] = parts[name]
                continue
            delta = _outputs_first(part, new["weight"].detach().double() - old["weight"].detach().double())
            u, s, vt = torch.linalg.svd(delta, full_matrices=False)
            r = min(rank, len(s))
            bias = (new["bias"] - old["bias"]).detach() if "bias" in moved else None
            factors[name] = (vt[:r] * s[:r, None].sqrt(), u[:, :r] * s[:r].sqrt(), bias)
            lost, total = lost + float(s[r:].square().sum()), total + float(s.square().sum())
        return cls(factors, whole, lost / total if total else 0.0)

    def on(self, model: nn.Module) -> Any:
        """The model with the adapter on it, as peft has it."""
        peft = library("peft", "peft")
        ranks = {name: len(a) for name, (a, _, _) in self.factors.items()}
        most = max(ranks.values(), default=1)
        config = peft.LoraConfig(
            r=most, lora_alpha=most, target_modules=list(self.factors), rank_pattern=ranks, alpha_pattern=ranks,
            modules_to_save=list(self.whole) or None, lora_bias=any(b is not None for *_, b in self.factors.values()),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about layers without a bias, and kinds of layers
            adapted = peft.get_peft_model(model, config)
        with torch.no_grad():
            for name, (a, b, bias) in self.factors.items():
                layer = adapted.base_model.model.get_submodule(name)
                layer.lora_A["default"].weight.copy_(a)
                layer.lora_B["default"].weight.copy_(b)
                if bias is not None:
                    layer.lora_B["default"].bias.copy_(bias)
            for name, part in self.whole.items():
                adapted.base_model.model.get_submodule(name).modules_to_save["default"].load_state_dict(
                    part.state_dict()
                )
        return adapted.eval()

    def write(self, model: nn.Module, folder: Path) -> None:
        """The files of the adapter; the model becomes peft's."""
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft takes a bias for a part of a weight
            self.on(model).save_pretrained(str(folder), save_embedding_layers=False)

    def weights(self, before: nn.Module) -> dict[str, Tensor]:
        """The weights of the model with the adapter merged into it."""
        state = {name: value.detach().clone() for name, value in before.state_dict().items()}
        for name, (a, b, bias) in self.factors.items():
            weight, step = state[f"{name}.weight"], _outputs_first(before.get_submodule(name), b @ a)
            state[f"{name}.weight"] = (weight.double() + step).to(weight.dtype)
            if bias is not None:
                state[f"{name}.bias"] = state[f"{name}.bias"] + bias
        for name, part in self.whole.items():
            state |= {f"{name}.{k}": v.detach() for k, v in part.named_parameters(recurse=False)}
        return state


def _linear(part: nn.Module) -> bool:
    """Whether a part is linear; the layers of GPT-2, which have transposed weights, are too."""
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"


def _outputs_first(part: nn.Module, weight: Tensor) -> Tensor:
    return weight if isinstance(part, nn.Linear) else weight.T


def _shared(model: nn.Module) -> set[int]:
    """Ids of the parameters that several parts share."""
    seen: dict[int, int] = {}
    for _, p in model.named_parameters(remove_duplicate=False):
        seen[id(p)] = seen.get(id(p), 0) + 1
    return {key for key, times in seen.items() if times > 1}


@entry
def to_lora(run: Any, out: Any = None, *, rank: int = RANK) -> Exported:
    """An adapter directory for the Hugging Face model a run repaired, of this rank; judged again as it is cut.

    Layer norms, embeddings and whatever else moved beside linear layers are in it as a whole.
    """
    opened = as_run(run)
    at_least("export to lora", rank=(rank, 1))
    target = place(opened, "lora", out)
    model = opened.config["model"]
    if "huggingface" not in model or "adapter" in model:
        what = "has an adapter, and repaired/ is one" if "adapter" in model else "is no Hugging Face model"
        todo = "copy that" if "adapter" in model else "write it with amends patch"
        raise BadInput(f"the model of the run {what}; {opened.folder}; {todo}")
    if opened.metrics["verdict"] == "not repaired":
        raise BadInput(f"there is no adapter, since nothing was repaired; {opened.folder}; {REFUSED}")
    repaired, loaded = repaired_by(opened)
    before = loaded.model
    after = repaired.network.module_with(repaired.after, before)
    adapter = Adapter.between(before, after, rank)
    judged = repaired.judge(in_network(adapter.weights(before), repaired.network))

    def fill(folder: Path) -> None:
        adapter.write(before, folder)
        shutil.copyfile(opened.folder / "repaired" / "README.md", folder / "README.md")

    write_folder(target, fill)
    cost = _cost(adapter, judged, opened.metrics, rank)
    return Exported("lora", target, len(adapter.factors) + len(adapter.whole), cost)


def _cost(adapter: Adapter, judged: Mapping[str, Any], metrics: Mapping[str, Any], rank: int) -> str:
    now, was = judged["overall"]["after"], metrics["overall"]["after"]
    others = f", {len(adapter.whole)} other parts are whole" if adapter.whole else ""
    return (
        f"rank {rank} holds {1 - adapter.left:.1%} of the change of {len(adapter.factors)} linear layers{others}; "
        f"overall accuracy {was:.3f} → {now:.3f} by the cut, {judged['verdict']}"
    )
