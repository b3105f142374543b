"""What kubelets, schedulers and the kernel say of who has a card: one module a format; none knows another."""
