"""Parsers of the owners of cards, as reported by kubelets, schedulers and the kernel."""
