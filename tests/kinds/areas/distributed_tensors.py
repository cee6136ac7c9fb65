"""DTensor on a mesh of one process."""

import functools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor

from tests.kinds.program import Programs

program = Programs()


@functools.cache
def mesh() -> DeviceMesh:
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh("cpu", (1,))


def x():
    return torch.arange(1.0, 7.0).reshape(2, 3)


def distributed(*placements):
    return distribute_tensor(x(), mesh(), placements or (Shard(0),))


@program(lambda: (distributed(), x()))
def given(d, x):
    return (d * 2 + d).to_local() + x


@program(lambda: (distributed(),))
def returned(d):
    return torch.sin(d)


@program(lambda: (x(), mesh()))
def made_of_local(x, mesh):
    d = DTensor.from_local(x, mesh, [Replicate()])
    return (d + 1).to_local()


@program(lambda: (distributed(),))
def redistributed(d):
    return d.redistribute(placements=[Replicate()]).to_local() + 1


@program(lambda: (distributed(Replicate()), distributed(Shard(0))))
def product(a, b):
    return (a @ b.t()).full_tensor()


@program(lambda: (distributed(),))
def facts(d):
    return d.shape, d.placements, d.to_local().shape, d.to_local() + 1


@program(lambda: (x(), distribute_module(nn.Linear(3, 3, bias=False).requires_grad_(False), mesh())))
def module(x, m):
    with torch.no_grad():
        m.weight.fill_(0.5)
    return F.relu(m(DTensor.from_local(x, mesh(), [Replicate()]))).to_local()
