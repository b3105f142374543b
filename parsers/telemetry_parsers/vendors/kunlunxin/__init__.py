"""Kunlunxin's tool."""
