# What libraries ask of PyTorch's private helpers.
import _atenon

is_compiling = _atenon.is_tracing
