"""The runtime: artifacts, devices, launches and reports.

``run_bytes`` is the entry point for other runtimes that hold an artifact as bytes; ``use_device`` and
``collect_reports`` say where such artifacts run, and what that cost.
"""

from tilewright.runtime.regions import collect_reports, run_bytes, use_device

__all__ = ["collect_reports", "run_bytes", "use_device"]
