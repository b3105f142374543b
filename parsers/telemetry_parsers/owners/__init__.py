"""Owners of cards as reported by kubelets, schedulers and the kernel: one module per format, independent of each other."""
