"""Balance: what does imbalance cost."""
