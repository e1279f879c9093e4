"""GSSR on a real GPU: records workloads of known size and checks what was recorded (benchmarks/on_gpu.sh)."""
