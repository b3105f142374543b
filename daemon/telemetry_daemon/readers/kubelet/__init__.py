"""Asks the kubelet which container has which device: `reader` makes the reader."""

from telemetry_daemon.readers.kubelet.reader import reader

__all__ = ["reader"]
