"""The accelerator in Vitis HLS C++ (``kernels/``), its generated header, and its native build."""
