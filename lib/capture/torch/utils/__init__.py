# torch.utils; its parts are imported when asked for.
