"""What each figure in the documentation was measured with: ``python -m benchmarks`` (see README.md here)."""
