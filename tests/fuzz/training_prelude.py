"""What random training steps find around them. The text of this file stands in front of every one."""
# ruff: noqa: F401  (programs use what is imported here)

import contextlib
import copy

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import framelift


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.factor + x * 0.01, None


def loss_of(out, y):
    return -out.log_softmax(-1).gather(-1, y.unsqueeze(-1)).mean()


def penalty(parameter):
    return parameter.abs().sum() * 0.001


def halve(parameter):
    if parameter.grad is not None:
        parameter.grad.mul_(0.5)


def set_gradients(params, gradients):
    for parameter, gradient in zip(params, gradients):
        parameter.grad = gradient


@torch.no_grad()
def plain_step(params):
    for parameter in params:
        if parameter.grad is not None:
            parameter -= 0.1 * parameter.grad


def broken(value):
    framelift.graph_break()
    return value
