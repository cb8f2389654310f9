# Passes over exported programs.
import _atenon


__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep, location):
    """Every program is the CPU's."""
    for device in location.values() if isinstance(location, dict) else (location,):
        _atenon.check_device(device)
    return ep
