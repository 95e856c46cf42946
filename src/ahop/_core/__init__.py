"""Shared by all rooms: errors of users, tensors, frames, files, locks; compiled kernels."""
