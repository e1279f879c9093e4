# common.sh - sourced by the scripts beside it.

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# Slurm's commands must not take the job around this shell for the cluster they talk to.
unset ${!SLURM_JOB*} ${!SLURM_STEP*} SLURMD_NODENAME 2>/dev/null || true

# starttime PID: when it started, in clock ticks after boot. With the pid this names a process for good.
# A zombie (its new parent slow to reap it) has none: it counts as gone.
starttime() {
  local s; { read -r s < "/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${s##*) }; [ "$1" != Z ] && [ "$1" != X ] && echo "${20}"
}

# alive PID STARTTIME
alive() { [ "$(starttime "$1" || true)" = "$2" ]; }

# launch DIR NAME CMD...: a daemon in a session of its own; prints its line "PID STARTTIME NAME" for DIR/pids
launch() {
  local dir=$1 name=$2; shift 2
  ( cd /; exec setsid "$@" </dev/null >>"$dir/log/$name.out" 2>&1 ) &
  local p=$!; disown $p
  echo "$p $(starttime $p || echo 0) $name"
}

# given_conf DIR: the /proc/PID/environ of all processes that were given this cluster's slurm.conf
given_conf() { grep -lzsxF "SLURM_CONF=$1/slurm.conf" /proc/[0-9]*/environ; }
