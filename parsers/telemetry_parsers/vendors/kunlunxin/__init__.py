"""Kunlunxin: its tool."""
