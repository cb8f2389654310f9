# torch.ao.nn: the newer name of the quantised modules.
