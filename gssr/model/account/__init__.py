"""How the GPU time of a window is booked, step by step, into the categories of gssr.model.breakdown."""
