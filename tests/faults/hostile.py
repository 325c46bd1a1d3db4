"""Files that are meant to harm whoever reads them: weights, models and data, and what they pretend to be."""

from __future__ import annotations

import gzip
import os
import pickle
import struct

import torch

from tests.faults.making import (
    BIG,
    DEEP,
    SHAPE,
    Builds,
    Harm,
    Maker,
    archive,
    arrays,
    directory,
    evil,
    hole,
    linked_picture,
    made_elsewhere,
    npy,
    packed_lie,
    picture,
    pipe,
    png,
    raw_pickle,
    saved,
    script,
    shards_from_above,
    spelled,
    table_that_unpickles,
    tensor,
    tensors,
    train,
    weights,
    written,
)

CALL = b"cos\nmkdir\n(X\x05\x00\x00\x00pwnedtR"
GETATTR = b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(X\x02\x00\x00\x00ostRX\x05\x00\x00\x00mkdirtR"
OBJECTS = SHAPE.replace("<f8", "|O")
IDX = struct.pack(">IIII", 2051, 2**31 - 1, 2**15, 2**15)
HOSTILE: dict[str, Maker] = {
    # pickles in the place of weights
    "a state dict with a call": saved("a.pt", lambda: {"a": Harm()}),
    "a call alone": saved("a.bin", Harm),
    "a call in the old format": saved("a.pth", lambda: {"a": Harm()}, _use_new_zipfile_serialization=False),
    "a call in a checkpoint": saved("a.ckpt", lambda: {"state_dict": {}, "hyper_parameters": Harm()}),
    "a whole module": saved("a.pt", lambda: torch.nn.Linear(64, 10)),
    "a call as an item": saved("a.pt", Builds),
    "eval": saved("a.pt", lambda: {"a": Harm(eval, "__import__('os').mkdir('pwned')")}),
    "exec": saved("a.pt", lambda: {"a": Harm(exec, "import os; os.mkdir('pwned')")}),
    "a shell": saved("a.pt", lambda: {"a": Harm(os.system, "mkdir pwned")}),
    "another load of torch": saved("a.pt", lambda: {"a": Harm(torch.load, "b.pt")}),
    "a hub of torch": saved("a.pt", lambda: {"a": Harm(torch.hub.load, "evil", "evil")}),
    "a bare pickle": written("a.pt", raw_pickle()),
    "a bare pickle of protocol 0": written("a.pt", raw_pickle(protocol=0)),
    "a bare pickle of protocol 5": written("a.pt", raw_pickle(protocol=5)),
    "a pickle by its letters": written("a.pt", spelled(CALL)),
    "a pickle that names its call twice": written("a.pt", spelled(CALL, b"0", CALL)),
    "an attribute by its letters": written("a.pt", spelled(GETATTR, b"(X\x05\x00\x00\x00pwnedtR")),
    "an instance by its letters": written("a.pt", spelled(b"(X\x05\x00\x00\x00pwnedios\nmkdir\n")),
    "a pickle in an archive": written("a.pt", archive({"a/data.pkl": pickle.dumps(Harm(), 2), "a/version": b"3"})),
    "an archive that climbs out": written("a.pt", archive({"../pwned/x": b"", "a/data.pkl": pickle.dumps({}, 2)})),
    "a script for torch": script,
    "safetensors by name, a pickle by nature": written("a.safetensors", raw_pickle()),
    # safetensors that lie
    "a header longer than memory": written("a.safetensors", tensors(tensor(), length=2**63)),
    "a header longer than the file": written("a.safetensors", tensors(tensor(), length=10**6)),
    "a header that is no JSON": written("a.safetensors", tensors(b"{'a': 1}")),
    "a header of a hundred thousand brackets": written("a.safetensors", tensors(b'{"a":' + DEEP + b"}")),
    "a tensor larger than memory": written("a.safetensors", tensors(tensor(shape=[BIG]))),
    "a shape whose product runs over": written("a.safetensors", tensors(tensor(shape=[2**40, 2**40]))),
    "a shape below nothing": written("a.safetensors", tensors(tensor(shape=[-4]))),
    "a tensor behind the end": written("a.safetensors", tensors(tensor(data_offsets=[BIG, BIG + 16]))),
    "tensors on top of each other": written("a.safetensors", tensors({**tensor(), "b": tensor()["0.weight"]})),
    "a kind of number that is none": written("a.safetensors", tensors(tensor(dtype="PICKLE"))),
    # what is no file
    "weights that are a pipe": pipe("a.safetensors", weights),
    "weights that never end": made_elsewhere("a.pt", "/dev/zero", weights),
    "weights of somebody else": made_elsewhere("a.pt", "/etc/passwd", weights),
    "weights that are themselves": made_elsewhere("a.pt", "a.pt", weights),
    "weights that are a hole": hole("a.safetensors", 2**42, weights),
    "data that are a pipe": pipe("a.csv", train),
    "data that never end": made_elsewhere("a.npz", "/dev/zero", train),
    "arrays that are a hole": hole("a.npz", 2**42, train),
    # Hugging Face directories
    "a model with code": directory({"config.json": {"model_type": "evil", **evil("AutoModel")}}),
    "a config with code": directory({"config.json": {"model_type": "evil", **evil("AutoConfig")}}),
    "a tokenizer with code": directory({"tokenizer_config.json": evil("AutoTokenizer")}),
    "an image processor with code": directory({"preprocessor_config.json": evil("AutoImageProcessor")}),
    "a processor with code": directory({"processor_config.json": evil("AutoProcessor")}),
    "a model that is a pickle": directory({"pytorch_model.bin": raw_pickle()}),
    "a config of brackets": directory({"config.json": lambda: DEEP}),
    "shards from above": shards_from_above,
    # data
    "an array of objects": written("a.npz", arrays(npy(OBJECTS % "(1,)", pickle.dumps([Harm()]))), train),
    "a header that computes": written("a.npz", arrays(npy(SHAPE % "__import__('os').mkdir('pwned')")), train),
    "an array larger than memory": written("a.npz", arrays(npy(SHAPE % f"({BIG},)", b"\0" * 64)), train),
    "arrays that climb out": written("a.npz", archive({"../../pwned/x.npy": npy(SHAPE % "(1,)", b"\0" * 8)}), train),
    "an array whose archive lies too": packed_lie,
    "a pickle under the name of arrays": written("a.npz", raw_pickle(), train),
    "one array that is a pickle": written("a.npz", lambda: npy(OBJECTS % "()", pickle.dumps(Harm())), train),
    "a table with Arrow's Python type": table_that_unpickles,
    "a table of nothing but its mark": written("a.parquet", lambda: b"PAR1" + b"\xff" * 67 + b"\x7fPAR1", train),
    "rows of brackets": written("a.jsonl", lambda: b'{"x": ' + DEEP + b', "label": 1}\n', train),
    "a number of a million digits": written("a.jsonl", lambda: b'{"x": ' + b"9" * 10**6 + b', "label": 1}\n', train),
    "a quote that never ends": written("a.csv", lambda: b'a,label\n"' + b"x," * 10**6, train),
    "a row of zeros": written("a.csv", lambda: b"a,label\n" + b"\0" * 10**6, train),
    "a batch that is a pickle": written("c/data_batch_1", raw_pickle(), lambda _: train("c", 'format = "cifar10"')),
    "IDX with more than there is": written("d/train-images-idx3-ubyte", lambda: IDX, lambda _: train("d")),
    "IDX that is packed": written(
        "d/train-images-idx3-ubyte.gz", lambda: gzip.compress(IDX + b"\0" * 10**6), lambda _: train("d")),
    "a picture of a billion pixels": picture(lambda: png(2**16, 2**16)),
    "a picture for Ghostscript": picture(lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(pwned) (w) file"),
    "a picture of somebody's passwords": linked_picture,
}  # fmt: skip
