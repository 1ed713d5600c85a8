"""Training from several threads and processes: loaders' workers, DistributedDataParallel."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import threading

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from programs.training import (
    assert_close,
    assert_same_state,
    compiled_copy,
    network,
    random_graph,
    rows,
)

CASES = [(random_graph(seed=seed), rows(seed=seed)) for seed in range(4)]


def loss_of(module, case):
    g, x = case
    return (module(g, x) - torch.sin(3 * x)).square().mean()


def test_backward_from_another_thread():
    model = network()
    fast = compiled_copy(model)
    for case in CASES[:3]:
        loss_of(model, case).backward()
        loss = loss_of(fast, case)
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert_same_state(fast, model)


def test_threads_train_one_module():
    """Forward and backward at once, also while the programs are made for the first time."""
    model = network()
    fast = compiled_copy(model)

    def gradients(module, case):
        return torch.autograd.grad(loss_of(module, case), list(module.parameters()))

    expected = [gradients(model, case) for case in CASES]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = list(range(len(CASES))) * 8
        found = list(pool.map(lambda number: gradients(fast, CASES[number]), jobs))
    for number, result in zip(jobs, found, strict=True):
        for mine, right in zip(result, expected[number], strict=True):
            assert_close(mine, right)


class Embedded(Dataset):
    """What a worker computes with a compiled module that is warm in the parent."""

    def __init__(self, module) -> None:
        self.module = module

    def __len__(self) -> int:
        return len(CASES)

    def __getitem__(self, number):
        grads = torch.autograd.grad(
            loss_of(self.module, CASES[number]), list(self.module.parameters())
        )
        return torch.cat([grad.flatten() for grad in grads])


def test_forked_workers_of_a_loader_train():
    model = network()
    fast = compiled_copy(model)
    for case in CASES[:3]:
        loss_of(fast, case).backward()
    loader = DataLoader(
        Embedded(fast), batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    for number, found in enumerate(loader):
        assert_close(found, Embedded(model)[number])


def _distributed(rank, address, connection):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    fast = compiled_copy(network())
    parallel = DistributedDataParallel(fast)
    for _ in range(3):  # in region mode, and as a whole
        parallel.zero_grad()
        loss_of(parallel, CASES[rank]).backward()
    connection.send([parameter.grad.tolist() for parameter in fast.parameters()])
    torch.distributed.destroy_process_group()
    # DistributedDataParallel keeps gloo's threads alive, which abort a process whose interpreter
    # ends while they drop a tensor (pytorch/pytorch#179291): leave without ending it.
    os._exit(0)


def test_distributed_data_parallel(tmp_path):
    """Each of two processes has one graph; gradients are those of the mean loss of both."""
    model = network()
    (0.5 * (loss_of(model, CASES[0]) + loss_of(model, CASES[1]))).backward()
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    address = f"file://{tmp_path / 'store'}"
    processes = [
        context.Process(target=_distributed, args=(rank, address, send))
        for rank, (_, send) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    found = []
    for receive, _ in pipes:
        assert receive.poll(90)
        found.append(receive.recv())
    for process in processes:
        process.join()
        assert process.exitcode == 0
    for grads in found:
        for mine, parameter in zip(grads, model.parameters(), strict=True):
            assert_close(torch.tensor(mine, dtype=parameter.dtype), parameter.grad)
