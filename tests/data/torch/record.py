"""Records a training of two steps: its trace, and what PyTorch itself says of it.

    python record.py FOLDER

writes FOLDER/train.pt.trace.json.gz and FOLDER/averages.json: of each row of `key_averages()` the
name, self and total microseconds on the CPU, and calls.
"""

import gzip
import json
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = torch.utils.data.TensorDataset(torch.randn(128, 64), torch.randint(0, 10, (128,)))


def keep(found):
    """Writes both files."""
    plain = os.path.join(sys.argv[1], "train.json")
    found.export_chrome_trace(plain)
    with open(plain, "rb") as trace, open(os.path.join(sys.argv[1], "train.pt.trace.json.gz"), "wb") as file:
        file.write(gzip.compress(trace.read(), mtime=0))
    os.remove(plain)
    rows = [[of.key, of.self_cpu_time_total, of.cpu_time_total, of.count] for of in found.key_averages()]
    with open(os.path.join(sys.argv[1], "averages.json"), "w") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


steps = schedule(wait=1, warmup=1, active=2)
with profile(activities=[ProfilerActivity.CPU], schedule=steps, on_trace_ready=keep) as profiler:
    for inputs, labels in torch.utils.data.DataLoader(samples, batch_size=32):
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
