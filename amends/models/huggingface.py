"""Models of Hugging Face: a directory with a config, weights, and a tokenizer or image processor."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amends.data.examples import Inputs
from amends.errors import BadInput, first_line, kind_of, nearest
from amends.likelihoods import Bernoulli, Gaussian, Tokens
from amends.models.chat import chat
from amends.models.loaded import Loaded, write_weights

TASKS = {
    "text-classification": ("AutoModelForSequenceClassification", ("ForSequenceClassification",)),
    "image-classification": ("AutoModelForImageClassification", ("ForImageClassification",)),
    "causal-lm": ("AutoModelForCausalLM", ("ForCausalLM", "LMHeadModel")),
}
ASIDE = ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json")
OPTIONS = ("max_length", "num_labels", "problem_type", "dtype")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LONGEST = 512  # tokens per example, unless the model or the caller sets less
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".ot", ".onnx", ".gguf", ".index.json")


def load_huggingface(where: Path, task: str | None, options: Mapping[str, Any], lent: tuple[str, ...] = ()) -> Loaded:
    """The model, in float32 unless the options have a `dtype`. Nothing is downloaded, and no code from the directory is
    run.

    `lent` are the parts that come with an adapter; any other missing weights are an error.
    """
    config = _config(where)
    task = _task(config, task, where)
    unknown = [k for k in options if k not in OPTIONS]
    if unknown:
        raise BadInput(f"there is no option {unknown[0]}; huggingface {where}; {nearest(unknown[0], OPTIONS)}")
    if options.get("dtype", "float32") not in DTYPES:
        raise BadInput(f"dtype is {options['dtype']!r}; huggingface {where}; {nearest(options['dtype'], DTYPES)}")
    model = _model(where, task, {k: v for k, v in options.items() if k != "max_length"}, lent)
    longest = options.get("max_length")
    encode = _images(where, model) if task == "image-classification" else _texts(where, model, task, longest)
    kept = [p for p in sorted(where.iterdir()) if p.is_file() and not p.name.startswith(".")]

    def write(repaired: nn.Module, folder: Path) -> None:
        write_pretrained(repaired, folder)
        _copy_rest(kept, folder)

    names = getattr(model.config, "id2label", None) or {}
    classes = () if task == "causal-lm" else tuple(str(names[i]) for i in sorted(names))
    if all(name == f"LABEL_{i}" for i, name in enumerate(classes)):  # the default of a config without names
        classes = ()
    return Loaded(
        model=model, write=write, classes=classes, encode=encode, likelihood=_likelihood(model.config, task),
        files=tuple(kept),
    )  # fmt: skip


def _config(where: Path) -> dict[str, Any]:
    if not where.is_dir():
        raise BadInput(
            f"no such directory, and nothing is downloaded; huggingface {where}; download it first "
            "(hf download NAME --local-dir DIR) and give DIR"
        )
    if (where / "adapter_config.json").is_file() and not (where / "config.json").is_file():
        raise BadInput(
            f"this is an adapter without its base model; huggingface {where}; give the base here, and this as adapter"
        )
    try:
        config = json.loads((where / "config.json").read_text())
    except FileNotFoundError as e:
        raise BadInput(
            f"there is no config.json; huggingface {where}; give the folder that save_pretrained wrote"
        ) from e
    except (ValueError, RecursionError) as e:
        raise BadInput(f"config.json is not valid JSON ({first_line(e)}); huggingface {where}; copy it again") from e
    if isinstance(config, dict) and config.get("quantization_config"):
        raise BadInput(
            f"the model is quantised, too coarse for a small edit; huggingface {where}; give it before quantisation"
        )
    if not isinstance(config, dict):
        raise BadInput(f"config.json holds {kind_of(config)}, not a table; huggingface {where}; copy it again")
    for name in ("config.json", *ASIDE):
        if _json(where / name).get("auto_map"):
            what = "the model" if name == "config.json" else name
            raise BadInput(
                f"{what} needs its own code, which is never run; huggingface {where}; build it in your own function"
            )
    return config


def _json(path: Path) -> dict[str, Any]:
    """A settings file of the directory; empty if it is missing or damaged, which raises when it is used."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _task(config: Mapping[str, Any], task: str | None, where: Path) -> str:
    if task is not None:
        if task not in TASKS:
            raise BadInput(f"task is {task!r}; huggingface {where}; {nearest(task, TASKS)}")
        return task
    architectures = config.get("architectures") or ["model without architecture"]
    for name, (_, endings) in TASKS.items():
        if architectures[0].endswith(endings):
            return name
    raise BadInput(
        f"the task of a {architectures[0]} is not known; huggingface {where}; give task, one of {', '.join(TASKS)}"
    )


def _model(where: Path, task: str, options: dict[str, Any], lent: tuple[str, ...]) -> Any:
    transformers = library()
    dtype = DTYPES[options.pop("dtype", "float32")]
    try:
        with quiet():
            model, info = getattr(transformers, TASKS[task][0]).from_pretrained(
                where, local_files_only=True, trust_remote_code=False, dtype=dtype, output_loading_info=True,
                ignore_mismatched_sizes=True, **options,
            )  # fmt: skip
    except Exception as e:
        raise BadInput(
            f"transformers cannot load the model ({first_line(e)}); huggingface {where}; check the directory"
        ) from e
    missing = sorted(k for k in info["missing_keys"] if not set(k.split(".")) & set(lent))
    if missing:
        raise BadInput(
            f"there are no weights for {', '.join(missing[:3])}, which would be random; huggingface {where}; "
            "give a model that was trained for this task, or another task"
        )
    shapes = sorted((str(k[0]), k) for k in info["mismatched_keys"])
    shapes = [(k, sizes) for k, sizes in shapes if not set(k.split(".")) & set(lent)]
    if shapes:
        (name, (_, stored, wanted)) = shapes[0]
        raise BadInput(
            f"{name} has shape {list(stored)}, but the config says {list(wanted)}; huggingface {where}; "
            "give weights and config of one model"
        )
    return model.eval()


def _likelihood(config: Any, task: str) -> Any:
    if task == "causal-lm":
        return Tokens()
    if config.problem_type == "multi_label_classification":
        return Bernoulli()
    return Gaussian() if config.problem_type == "regression" or config.num_labels == 1 else None


def _texts(where: Path, model: Any, task: str, longest: int | None) -> Callable[[list[Any]], Inputs] | None:
    """Encodes every text to one length, cut or padded, so that sets can be joined."""
    transformers = library()
    if not any((where / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")):
        return None
    tokenizer = _encoder(transformers.AutoTokenizer, "tokenizer", where)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if task == "causal-lm":
        tokenizer.padding_side = "right"
    places = getattr(model.config, "max_position_embeddings", None) or LONGEST
    length = longest or min(tokenizer.model_max_length, places, LONGEST)
    takes = set(inspect.signature(model.forward).parameters)

    talk = chat(tokenizer, max_length=length) if task == "causal-lm" else None

    def encode(texts: list[Any]) -> Inputs:
        if talk is not None and texts and not isinstance(texts[0], str):  # conversations
            return {k: v for k, v in talk(texts).items() if k in takes or k == "labels"}
        encoded = tokenizer(
            [str(t) for t in texts], padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        )
        return {k: v for k, v in encoded.items() if k in takes}

    return encode


def _encoder(maker: Any, what: str, where: Path) -> Any:
    """The tokenizer or image processor in the directory; no code of the directory is run."""
    try:
        with quiet():
            return maker.from_pretrained(where, local_files_only=True, trust_remote_code=False)
    except Exception as e:  # for a broken file, transformers may raise anything
        raise BadInput(
            f"transformers cannot load the {what} ({first_line(e)}); huggingface {where}; copy its files again"
        ) from e


def _images(where: Path, model: Any) -> Callable[[list[Any]], Inputs] | None:
    """Encodes images: floats [channels, height, width] from 0 to 1, or whatever the processor takes."""
    transformers = library()
    if not any((where / name).is_file() for name in ("preprocessor_config.json", "processor_config.json")):
        return None
    processor = _encoder(transformers.AutoImageProcessor, "image processor", where)
    channels = getattr(model.config, "num_channels", 3)

    def encode(images: list[Any]) -> Inputs:
        return {"pixel_values": processor([_bytes(i, channels) for i in images], return_tensors="pt")["pixel_values"]}

    return encode


def _bytes(image: Any, channels: int) -> Any:
    """A float tensor as bytes [height, width, channels], which processors expect."""
    if not isinstance(image, Tensor):
        return image
    image = image.expand(channels, -1, -1) if image.shape[0] == 1 else image
    return (image.permute(1, 2, 0) * 255).round().clamp(0, 255).to(torch.uint8).numpy().astype(np.uint8)


def _copy_rest(kept: list[Path], folder: Path) -> None:
    """Copies tokenizer, image processor and settings: all files except weights, the card, and those that exist."""
    for path in kept:
        if path.name.endswith(WEIGHTS) or path.name == "README.md" or (folder / path.name).exists():
            continue
        shutil.copyfile(path, folder / path.name)


def library() -> Any:
    try:
        import transformers
    except ImportError as e:
        raise BadInput(
            "a Hugging Face model cannot be loaded without transformers; run: pip install 'amends[huggingface]'"
        ) from e
    return transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, transformers shows no progress bars and no notes, only errors."""
    logging = library().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def write_pretrained(model: Any, folder: Path) -> None:
    """Writes a model in the form of Hugging Face: with its config, or only the adapter if it has one."""
    if hasattr(model, "peft_config"):
        model.save_pretrained(str(folder), save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # peft's blank card
        return
    with quiet():
        model.save_pretrained(folder)


def write_model(model: nn.Module, folder: Path) -> None:
    """Writes a model in the form of its own library."""
    ours = hasattr(model, "save_pretrained") and (hasattr(model, "peft_config") or hasattr(model, "config"))
    (write_pretrained if ours else write_weights)(model, folder)
