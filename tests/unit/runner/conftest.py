"""Triton reads this once, when it is first imported: kernels then run in its interpreter."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
