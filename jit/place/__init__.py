"""Which operators of a network run on which of several accelerators, and which on the CPU: solved to the optimum.

After Tarnawski et al., *Efficient Algorithms for Device Placement of DNN Graph Operators* (NeurIPS 2020): dynamic
programming over the ideals of the operator graph, the sets of operators that hold all that their members need.
"""
