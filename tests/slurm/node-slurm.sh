#!/bin/bash
# node-slurm.sh fail|start NODE [DIR] - crash or bring back one node of the cluster in DIR
#   (default: $GSSR_SLURM_DIR), for tests of node failure.
#   fail : SIGKILL to its slurmd, its slurmstepds and its tasks at once, and tell slurmctld
#          (state=down), so that jobs see NODE_FAIL at once instead of after SlurmdTimeout.
#          With QUIET=1 slurmctld is not told: the real sequence, ~20-40 s.
#   start: start slurmd again (ReturnToService=2: the node becomes idle by itself).
set -uo pipefail
. "$(dirname "$0")/common.sh"
act=${1:-} node=${2:-} dir=${3:-${GSSR_SLURM_DIR:-}}
[ -f "$dir/pids" ] && [[ $node =~ ^node[0-9]+$ ]] || { echo "usage: node-slurm.sh fail|start nodeN [DIR]" >&2; exit 2; }
dir=$(cd "$dir" && pwd -P)
export SLURM_CONF=$dir/slurm.conf
line=$(grep " $node\$" "$dir/pids") || { echo "node-slurm: no $node in $dir" >&2; exit 2; }
read -r pid start _ <<<"$line"
case $act in
fail)
  kids() { local p c; for p in "$@"; do c=$(cat /proc/"$p"/task/*/children 2>/dev/null); echo $p $c; [ -n "$c" ] && kids $c; done; }
  victims=
  for e in $(given_conf "$dir"); do
    p=${e#/proc/}; p=${p%/environ}; { read -r c < "/proc/$p/comm"; } 2>/dev/null
    case $c in slurmstepd*)  # which node? slurmd's argv[0..] is gone: look at its log socket/cwd/tasks
      ls -l "/proc/$p/fd" 2>/dev/null | grep -qE "$dir/(spool/$node/|log/slurmd\.$node\.log)" && victims="$victims $(kids "$p")" ;; esac
  done
  alive "$pid" "$start" && victims="$pid $victims"
  victims=$(echo $victims | tr ' ' '\n' | sort -un | tr '\n' ' ')
  [ -n "${victims// /}" ] && kill -KILL $victims 2>/dev/null
  echo "node-slurm: killed on $node: $victims" >&2
  [ "${QUIET:-0}" = 1 ] || scontrol update nodename="$node" state=down reason="node-slurm.sh fail" ;;
start)
  if alive "$pid" "$start"; then echo "node-slurm: $node already runs" >&2; exit 0; fi
  mapfile -t cmd < "$dir/run/$node.cmd"
  sed -i "s/^.* $node\$/$(launch "$dir" "$node" "${cmd[@]}")/" "$dir/pids"
  for ((i = 0; i < 200; i++)); do
    case $(sinfo -h -N -n "$node" -o %T 2>/dev/null) in idle|mixed|allocated) echo "node-slurm: $node is back" >&2; exit 0 ;; esac
    [ $i = 20 ] && scontrol update nodename="$node" state=resume 2>/dev/null
    sleep 0.1
  done; echo "node-slurm: $node does not come back: $(sinfo -h -N -n "$node" -o '%T %E')" >&2; exit 1 ;;
*) echo "usage: node-slurm.sh fail|start nodeN [DIR]" >&2; exit 2 ;;
esac
