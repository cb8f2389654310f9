"""An .npy file of integers on standard output: integers.py 2,3 0 1 2 3 4 5 [int32]"""
import array
import sys

shape, *numbers = sys.argv[1:]
is_short = numbers[-1] == "int32" and bool(numbers.pop())
header = "{'descr': '<i%d', 'fortran_order': False, 'shape': (%s,), }" % (4 if is_short else 8, shape)
header = header.ljust(117) + "\n"
sys.stdout.buffer.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
sys.stdout.buffer.write(array.array("i" if is_short else "q", map(int, numbers)).tobytes())
