"""Where the GPU time goes: every second of every allocated GPU in exactly one category."""
