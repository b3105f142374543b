"""The tools and rank tables of Huawei Ascend."""
