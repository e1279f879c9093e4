#!/bin/bash
# stop-slurm.sh [-k] [DIR] - stop the cluster that start-slurm.sh started in DIR
#   (default: $GSSR_SLURM_DIR) and remove DIR; -k keeps DIR for its logs.
# Cancels all jobs, ends the recorded daemons (pid and start time must match), then whatever
# a job of this cluster left behind (processes whose environment names this slurm.conf, this
# cluster and a node of it). No other process is touched. A second call is a no-op. Exit 0 = all gone.
set -uo pipefail
. "$(dirname "$0")/common.sh"
keep=0; [ "${1:-}" = -k ] && { keep=1; shift; }
dir=${1:-${GSSR_SLURM_DIR:-}}
if [ -z "$dir" ] || [ ! -f "$dir/pids" ] || [ ! -f "$dir/.gssr-slurm" ]; then echo "stop-slurm: nothing started in '${dir}'" >&2; exit 0; fi
dir=$(cd "$dir" && pwd -P)
export SLURM_CONF=$dir/slurm.conf

cluster=$(sed -n 's/^ClusterName=//p' "$dir/slurm.conf")
self=$$; p=$$                                              # never this script or what called it
while read -r p < <(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status" 2>/dev/null) && [ "${p:-0}" -gt 1 ]; do self="$self $p"; done
# wait until none of the "PID STARTTIME NAME" lines in $1 is alive, for $2 x 0.05 s
gone() {
  local i p t n
  for ((i = 0; i < $2; i++)); do
    while read -r p t n; do [ -n "$p" ] && alive "$p" "$t" && { sleep 0.05; continue 2; }; done <<<"$1"
    return 0
  done; return 1
}
# processes that belong to a job of this cluster: everything its slurmstepds started, and
# (without the argument "tasks") those slurmstepds
steps() {
  local e p c self="$self $BASHPID"
  for e in $(given_conf "$dir"); do
    p=${e#/proc/}; p=${p%/environ}; c=
    { read -r c < "/proc/$p/comm"; } 2>/dev/null
    case $c in slurmctld*|munged*) continue ;; slurmd*) continue ;;
      slurmstepd*) [ "${1:-}" = tasks ] || echo "$p"; continue ;; esac
    # a task has all three; a shell of salloc, or a task of another cluster, has not
    grep -qzs '^SLURMD_NODENAME=' "$e" && grep -qzsxF "SLURM_CLUSTER_NAME=$cluster" "$e" &&
      [[ " $self " != *" $p "* ]] && echo "$p"
  done
}

# 1. jobs, while there is a controller to ask
if grep -q ' slurmctld$' "$dir/pids" && read -r p t _ < <(grep ' slurmctld$' "$dir/pids") && alive "$p" "$t"; then
  j=$(timeout 10 squeue -h -o %A 2>/dev/null | sort -u)
  if [ -n "$j" ]; then
    timeout 10 scancel $j 2>/dev/null                     # SIGTERM to every task
    for ((i = 0; i < 60; i++)); do
      [ -z "$(timeout 5 squeue -h -o %A 2>/dev/null)" ] && break
      [ $i = 20 ] && { l=$(steps tasks); [ -z "$l" ] || kill -KILL $l 2>/dev/null; }   # after 1 s
      sleep 0.05
    done
  fi
fi
# 2. daemons: the slurmds together, then slurmctld, then munged
n=0
for set in node slurmctld munged; do
  l=$(grep " $set[0-9]*\$" "$dir/pids")
  while read -r p t _; do
    [ -n "$p" ] && alive "$p" "$t" || continue
    { read -r c < "/proc/$p/comm"; } 2>/dev/null
    [ "$c" = unshare ] && kill -TERM $(cat "/proc/$p/task/$p/children") 2>/dev/null   # which ends with its child only
    kill -TERM "$p" 2>/dev/null && n=$((n+1))
  done <<<"$l"
  gone "$l" 200 || { while read -r p t name; do alive "$p" "$t" && kill -KILL "$p" 2>/dev/null &&
    echo "stop-slurm: $name ($p) needed SIGKILL" >&2; done <<<"$l"; gone "$l" 40; }
done
# 3. what is left of the jobs
rc=0
for sig in TERM KILL; do
  l=$(steps); [ -z "$l" ] && break
  echo "stop-slurm: SIG$sig to left-over job processes:" $l >&2; kill -$sig $l 2>/dev/null
  for ((i = 0; i < 40; i++)); do [ -z "$(steps)" ] && break; sleep 0.05; done
done
l=$(steps); [ -z "$l" ] || { echo "stop-slurm: still there:" $l >&2; rc=1; }
# 4. network namespaces and bridge of -X
if [ -f "$dir/net" ] && read -r br k < "$dir/net"; then
  for ((i = 1; i <= k; i++)); do ip link del "${br}n$i" 2>/dev/null; ip netns del "$br-node$i" 2>/dev/null; done
  ip link del "$br" 2>/dev/null; rm -f "$dir/net"
fi
rm -f "$dir/pids" "$dir/env.sh"
[ $keep = 1 ] || rm -rf "$dir"
echo "stop-slurm: stopped $n daemons of $dir" >&2
exit $rc
