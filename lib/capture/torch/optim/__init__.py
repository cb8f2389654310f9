# torch.optim: nothing is trained here; swa_utils has the averaged models that files keep beside the trained one.
