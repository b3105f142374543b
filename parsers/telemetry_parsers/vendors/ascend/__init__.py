"""Huawei Ascend's tools and rank tables."""
