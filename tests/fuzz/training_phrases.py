"""Lines of random training steps: forward, losses, backward, gradients, hooks, optimizers, parameters, modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[[Any], str]

FORWARD: list[Make] = [
    lambda w: "out = model(x)",
    lambda w: "out = model(x)",
    lambda w: "out = model(x * 1)",
    lambda w: "out = checkpoint(model, x, use_reentrant=False)",
    lambda w: "out = checkpoint(model, x, use_reentrant=False, preserve_rng_state=True) * 2",
    lambda w: "out = Scaled.apply(model(x), 0.5)",
    lambda w: "out = torch.func.functional_call(model, dict(model.named_parameters()), x)",
    lambda w: "with torch.autocast('cpu', torch.bfloat16): out = model(x)",
    lambda w: "out = model[1:](model[0](x))",
    lambda w: "out = model(x).detach().requires_grad_()",
]
LOSSES: list[Make] = [
    lambda w: "loss = F.cross_entropy(out, y)",
    lambda w: "loss = F.cross_entropy(out, y)",
    lambda w: "loss = F.cross_entropy(out.float(), y, label_smoothing=0.1)",
    lambda w: "loss = F.nll_loss(out.log_softmax(-1), y)",
    lambda w: "loss = F.mse_loss(out, torch.zeros_like(out))",
    lambda w: "loss = out.square().mean()",
    lambda w: "loss = loss_of(out, y)",
    lambda w: "loss = F.cross_entropy(out, y, reduction='none').topk(2)[0].sum()",
    lambda w: f"loss = F.cross_entropy(out, y) + {w.parameter()}.square().sum() * 0.01",
    lambda w: f"loss = F.cross_entropy(out, y) + penalty({w.parameter()})",
]
BACKWARD: list[Make] = [
    lambda w: "loss.backward()",
    lambda w: "loss.backward()",
    lambda w: "loss.backward()",
    lambda w: "(loss / 2).backward()",
    lambda w: "loss.backward(retain_graph=True)",
    lambda w: "loss.backward(retain_graph=True); loss.backward()",
    lambda w: "loss.backward(torch.full_like(loss, 0.5))",
    lambda w: f"loss.backward(inputs=[{w.parameter()}])",
    lambda w: "torch.autograd.backward([loss, out.sum() * 0.1])",
    lambda w: "set_gradients(params, torch.autograd.grad(loss, params, allow_unused=True))",
    lambda w: "set_gradients(params, torch.autograd.grad(loss, params, materialize_grads=True))",
    lambda w: (
        f"g = torch.autograd.grad(loss, {w.parameter()}, create_graph=True)[0]; (loss + g.square().sum()).backward()"
    ),
    lambda w: "[part.backward() for part in (loss / 2, F.cross_entropy(model(x), y) / 2)]",
    lambda w: "scaler.scale(loss).backward()",
]
STEP: list[Make] = [
    lambda w: "optimizer.step()",
    lambda w: "optimizer.step()",
    lambda w: "optimizer.step(); scheduler.step()",
    lambda w: "scaler.step(optimizer); scaler.update()",
    lambda w: "plain_step(params)",
    lambda w: "optimizer.step(lambda: loss.detach())",
    lambda w: "if len(log) % 2: optimizer.step()",
]
ZERO: list[Make] = [
    lambda w: "optimizer.zero_grad()",
    lambda w: "optimizer.zero_grad()",
    lambda w: "optimizer.zero_grad(set_to_none=False)",
    lambda w: "model.zero_grad()",
    lambda w: "if len(log) % 2: optimizer.zero_grad()",
]
SIMPLE: list[Make] = [
    # gradients
    lambda w: f"{w.parameter()}.grad = None",
    lambda w: f"{w.parameter()}.grad = torch.ones_like({w.parameter()})",
    lambda w: f"{w.parameter()}.grad = {w.parameter()}.detach() * 0.1",
    lambda w: f"halve({w.parameter()})",
    lambda w: "[halve(p) for p in params]",
    lambda w: f"if {w.parameter()}.grad is not None: {w.parameter()}.grad.data.clamp_(-0.1, 0.1)",
    lambda w: f"log.append({w.parameter()}.grad)",
    lambda w: f"log.append({w.parameter()}.grad is None)",
    lambda w: "log.append(torch.nn.utils.clip_grad_norm_(params, 0.5))",
    lambda w: "torch.nn.utils.clip_grad_norm_(params, 0.5, foreach=True)",
    lambda w: "torch.nn.utils.clip_grad_value_(params, 0.05)",
    lambda w: "log.append(torch.nn.utils.get_total_norm([p.grad for p in params if p.grad is not None]))",
    # parameters
    lambda w: f"with torch.no_grad(): {w.parameter()}.mul_(0.9)",
    lambda w: f"{w.parameter()}.data.mul_(0.9)",
    lambda w: f"{w.parameter()}.data = {w.parameter()}.data.clamp(-0.5, 0.5)",
    lambda w: f"{w.parameter()}.data.copy_({w.parameter()}.data * 0.5)" if w.coin() else "pass",
    lambda w: f"{w.parameter()}.detach().add_(0.01)",
    lambda w: f"{w.parameter()}.requires_grad_(False)",
    lambda w: f"{w.parameter()}.requires_grad_()",
    lambda w: f"{w.parameter()}.requires_grad = {w.one_of(['True', 'False'])}",
    lambda w: f"model[0].requires_grad_({w.one_of(['True', 'False'])})",
    lambda w: f"{w.parameter()}.add_(1)",  # torch refuses
    lambda w: "log.append([p.requires_grad for p in params])",
    lambda w: "with torch.no_grad(): [e.lerp_(p, 0.1) for e, p in zip(average, params)]",
    lambda w: "saved.update((k, t.clone()) for k, t in model.state_dict().items())",
    lambda w: "model.load_state_dict(saved) if saved else None",
    lambda w: "optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))",
    # hooks
    lambda w: f"handles.append({w.parameter()}.register_hook(lambda g: g * 2))",
    lambda w: f"handles.append({w.parameter()}.register_hook(lambda g: log.append(g.sum())))",
    lambda w: f"handles.append({w.parameter()}.register_post_accumulate_grad_hook(halve))",
    lambda w: f"handles.append({w.parameter()}.register_post_accumulate_grad_hook(lambda p: log.append(1)))",
    lambda w: "out.register_hook(lambda g: g * 0.5)",
    lambda w: "out.register_hook(lambda g: log.append(g.sum()))",
    lambda w: "h = out.register_hook(lambda g: -g); h.remove()",
    lambda w: "loss.register_hook(lambda g: g * 3)",
    lambda w: "out.retain_grad()",
    lambda w: "log.append(out.grad)",
    lambda w: "handles.append(model[0].register_forward_hook(lambda m, args, result: result * 0.5))",
    lambda w: "handles.append(model[-1].register_forward_pre_hook(lambda m, args: (args[0] + 0.1,)))",
    lambda w: "handles.append(model[-1].register_full_backward_hook(lambda m, gi, go: log.append(len(gi))))",
    lambda w: "handles.append(model[-1].register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi)))",
    lambda w: "[h.remove() for h in handles]; handles.clear()",
    lambda w: "if handles: handles.pop().remove()",
    # what leaves, and numbers
    lambda w: "log.append(loss.detach())",
    lambda w: "log.append(loss)",
    lambda w: "log.append(loss.item())",
    lambda w: "log.append((out.argmax(-1) == y).sum().item())",
    lambda w: "log.append((loss.requires_grad, loss.grad_fn is None, out.is_leaf))",
    lambda w: "total[0] += loss.item()",
    lambda w: "log.append(out[y > 0].sum().detach())",
    lambda w: "log.append(f'{loss.item():.3f}')",
    lambda w: "if loss.item() > 0.7: log.append('high')",
    lambda w: "if not torch.isfinite(loss): return None",
    # the optimizer
    lambda w: "optimizer.param_groups[0]['lr'] *= 0.9",
    lambda w: "for group in optimizer.param_groups: group['lr'] = 0.01 * (1 + len(log) % 3)",
    lambda w: "optimizer.param_groups[0]['weight_decay'] = 0.1",
    lambda w: "log.append(optimizer.param_groups[0]['lr'])",
    lambda w: "log.append(len(optimizer.state))",
    lambda w: "scheduler.step()",
    lambda w: "log.append(scheduler.get_last_lr())",
    # what is computed and detached
    lambda w: "out = out.detach()",
    lambda w: "out.detach_()",
    lambda w: "loss = loss.detach()",
    lambda w: "x = (x * 2).requires_grad_()",
    lambda w: "x = x.clone().requires_grad_()",
    lambda w: "log.append(x.grad)",
    lambda w: "x = x + torch.randn_like(x) * 0.1",
    lambda w: "x = F.dropout(x, 0.2)",
    lambda w: "torch.manual_seed(len(log))",
    lambda w: "out = out.clone(); out[0] = 0",
    lambda w: "out = out * 1; out.mul_(2)",
    lambda w: "out.mul_(0.5)",
    lambda w: "loss = loss * 2",
    # modes
    lambda w: "model.eval()",
    lambda w: "model.train()",
    lambda w: "torch.set_grad_enabled(True)",
    lambda w: "framelift.graph_break()",
    lambda w: "loss = broken(loss)",
    lambda w: "out = broken(out)",
]
MANAGERS: list[Make] = [
    lambda w: "with torch.no_grad():",
    lambda w: "with torch.enable_grad():",
    lambda w: "with torch.set_grad_enabled(len(log) % 2 == 0):",
    lambda w: "with torch.autocast('cpu', torch.bfloat16):",
    lambda w: "with torch.random.fork_rng(devices=[]):",
    lambda w: "with contextlib.suppress(RuntimeError):",
    lambda w: "with torch.inference_mode():",
]
BRANCHES: list[Make] = [
    lambda w: "if len(log) % 2:",
    lambda w: "if model.training:",
    lambda w: f"if {w.parameter()}.grad is not None:",
    lambda w: "if handles:",
    lambda w: "for part in range(2):",
    lambda w: "for x, y in zip(x.chunk(2), y.chunk(2)):",
]
