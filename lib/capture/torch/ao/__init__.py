# torch.ao: of its quantisation only what a float model holds of it.
