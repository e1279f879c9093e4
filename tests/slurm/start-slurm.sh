#!/bin/bash
# start-slurm.sh - a throw-away Slurm cluster on one machine, with fake GPUs.
#
#   eval "$(start-slurm.sh [-n NODES] [-g GPUS_PER_NODE] [-c CPUS_PER_NODE]
#                          [-d DIR] [-G auto|mknod|dev] [-k KILLWAIT] [-H|-X] [-P] [-t SECS])"
#
#   -n  number of nodes (default 4), called node1..nodeN, one slurmd each
#   -g  fake GPUs per node (default 4; 0 = no gres)
#   -c  CPUs that each node claims to have (default 16)
#   -d  state directory (default: new /tmp/gssr-slurm.XXXXXX); one directory = one cluster.
#       Must be new, empty or of an earlier run: stop-slurm.sh removes it
#   -G  device nodes that stand for the GPUs in gres.conf (slurmd only stats them): "mknod"
#       (DIR/dev/nvidia0.., needs root), "dev" (/dev/null, /dev/zero, ...; at most 6), or
#       "auto" (default: mknod, else dev). Count= without File= is refused by Slurm 22.05.
#   -k  KillWait: seconds between SIGTERM and SIGKILL (default 5)
#   -H  each slurmd in its own UTS namespace: `hostname` inside tasks is node1..nodeN
#   -X  as -H, and each slurmd in its own network namespace with its own address
#       10.213.x.1..N on a bridge (needs root and the commands ip and bridge/veth support)
#   -P  as -H, and each slurmd in its own mount and pid namespaces, with a /dev/shm of its own: what its
#       processes are called, lock and see there is the node's alone (needs root)
#   -t  seconds to wait for idle nodes (default 60)
#
# Needs: the commands of the Debian packages slurm-wlm and munge. Root, or any user (then
# jobs run as that user only, and -H, -X and -P are not available).
# Does not need: systemd, cgroups, a network (loopback only), any Slurm set-up.
# stdout: lines (`export SLURM_CONF=...`) to be eval'ed or sourced (also in DIR/env.sh); stderr: progress.
# Calling it again with the -d of a running cluster prints the same lines and starts nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

nodes=4 gpus=4 cpus=16 dir= gres=auto killwait=5 uts=0 net=0 private=0 limit=60
while getopts n:g:c:d:G:k:HXPt:h o; do case $o in
  n) nodes=$OPTARG ;; g) gpus=$OPTARG ;; c) cpus=$OPTARG ;; d) dir=$OPTARG ;;
  G) gres=$OPTARG ;; k) killwait=$OPTARG ;; H) uts=1 ;; X) uts=1 net=1 ;; P) uts=1 private=1 ;; t) limit=$OPTARG ;;
  h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;; *) exit 2 ;; esac; done
die() { echo "start-slurm: $*" >&2; exit 1; }
say() { echo "start-slurm: $*" >&2; }
for v in "$nodes" "$gpus" "$cpus" "$killwait" "$limit"; do
  [[ $v =~ ^[0-9]+$ ]] || die "not a number: $v"; done
[ $uts = 0 ] || [ "$(id -u)" = 0 ] || die "-H, -X and -P need root"
[ "$nodes" -ge 1 ] || die "-n must be at least 1"
me=$(id -un) || die "this user id has no name"
for c in munged slurmctld slurmd sinfo scontrol; do
  command -v $c >/dev/null || die "$c not found (apt-get install slurm-wlm munge)"; done

case $gres in auto|mknod|dev) ;; *) die "-G: auto, mknod or dev" ;; esac

if [ -z "$dir" ]; then dir=$(mktemp -d /tmp/gssr-slurm.XXXXXX); fi
mkdir -p "$dir"; dir=$(cd "$dir" && pwd -P)
[ ${#dir} -le 80 ] || die "path too long for a unix socket: $dir"
[ -f "$dir/.gssr-slurm" ] || [ -z "$(ls -A "$dir")" ] || die "$dir is not empty and not ours"
: > "$dir/.gssr-slurm"                 # stop-slurm.sh removes only a directory with this file

# DIR/pids has a line "PID STARTTIME NAME" per daemon; a pid counts only with the start time it was recorded with.
if [ -f "$dir/pids" ] && [ -f "$dir/env.sh" ]; then
  live=0 dead=0
  while read -r p t _; do
    if alive "$p" "$t"; then live=$((live+1)); else dead=$((dead+1)); fi
  done < "$dir/pids"
  if [ "$live" -gt 0 ] && [ "$dead" = 0 ]; then say "already running in $dir"; cat "$dir/env.sh"; exit 0; fi
  [ "$live" = 0 ] || { say "half-dead cluster in $dir: stopping it first"; "$here/stop-slurm.sh" -k "$dir" >&2; }
fi
rm -rf "$dir"/{state,spool,run,log,dev,net,pids,env.sh,slurm.conf,gres.conf,cgroup.conf,munge.key}
mkdir -p "$dir"/{state,run,log,dev}; for i in $(seq "$nodes"); do mkdir -p "$dir/spool/node$i"; done
chmod 755 "$dir" "$dir"/run            # munged refuses a socket below a group-writable directory

# Ports: a free block of NODES+1 (0 = slurmctld, 1..N = slurmd).
free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
base=
for _ in $(seq 50); do
  b=$(( 20000 + (RANDOM % 1000) * 12 ))        # 20000..31999, below the ephemeral range
  ok=1; for i in $(seq 0 "$nodes"); do free $((b+i)) || { ok=0; break; }; done
  [ $ok = 1 ] && { base=$b; break; }
done
[ -n "$base" ] || die "no free block of ports"

host=$(hostname); host=${host%%.*}; ctladdr=127.0.0.1 nodeaddr=127.0.0.1
if [ $net = 1 ]; then
  command -v ip >/dev/null || die "-X needs the command ip (iproute2)"
  [ "$nodes" -le 200 ] || die "-X: at most 200 nodes"
  sub=10.213.$(( (base / 12) % 250 )); ctladdr=$sub.254
  if [ "$nodes" = 1 ]; then nodeaddr=$sub.1; else nodeaddr="$sub.[1-$nodes]"; fi
fi
dd if=/dev/urandom of="$dir/munge.key" bs=1 count=1024 status=none; chmod 400 "$dir/munge.key"

gresline= gresnode=
if [ "$gpus" -gt 0 ]; then
  gresline="GresTypes=gpu"; gresnode=" Gres=gpu:$gpus"
  f=
  if [ "$gres" != dev ]; then
    for i in $(seq 0 $((gpus-1))); do
      mknod -m 666 "$dir/dev/nvidia$i" c 1 3 2>/dev/null || { f=; break; }; f=$f,$dir/dev/nvidia$i; done
    [ -n "$f" ] || [ "$gres" = auto ] || die "mknod failed; use -G dev"
  fi
  if [ -z "$f" ]; then
    d=(/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty)
    [ "$gpus" -le ${#d[@]} ] || die "at most ${#d[@]} GPUs per node without mknod"
    f=$(printf ',%s' "${d[@]:0:$gpus}")
  fi
  echo "Name=gpu File=${f#,}" > "$dir/gres.conf"
fi
# Named, the v1 plugin is loaded and never used; the default "autodetect" makes slurmd fail
# where /sys/fs/cgroup is not mounted (containers, "ip netns exec") or is v2 without systemd.
echo "CgroupPlugin=cgroup/v1" > "$dir/cgroup.conf"
if [ "$nodes" = 1 ]; then list=node1 ports=$((base+1)); else list="node[1-$nodes]" ports="[$((base+1))-$((base+nodes))]"; fi
cat > "$dir/slurm.conf" <<CONF
ClusterName=gssr$base
SlurmctldHost=$host($ctladdr)
SlurmctldPort=$base
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=1
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=$killwait
OverTimeLimit=0
SlurmctldTimeout=30
SlurmdTimeout=20
InactiveLimit=0
MinJobAge=600
MailProg=/bin/true
PropagateResourceLimits=NONE
$gresline
NodeName=$list NodeHostname=$host NodeAddr=$nodeaddr Port=$ports CPUs=$cpus RealMemory=4000$gresnode State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF

export SLURM_CONF=$dir/slurm.conf
: > "$dir/pids"
fail() { say "$1; last log lines:"; tail -n 5 "$dir"/log/* >&2 || true; "$here/stop-slurm.sh" -k "$dir" >&2 || true; exit 1; }
daemon() { launch "$dir" "$@" >> "$dir/pids"; }
if [ $net = 1 ]; then
  echo "gs$base $nodes" > "$dir/net"                     # stop-slurm.sh removes what this names
  { ip link add "gs$base" type bridge && ip addr add "$ctladdr/24" dev "gs$base" && ip link set "gs$base" up; } ||
    fail "no bridge"
  for i in $(seq "$nodes"); do
    ns=gs$base-node$i
    { ip netns add "$ns" && ip link add "gs${base}n$i" type veth peer name eth0 netns "$ns" &&
      ip link set "gs${base}n$i" master "gs$base" up && ip -n "$ns" addr add "$sub.$i/24" dev eth0 &&
      ip -n "$ns" link set lo up && ip -n "$ns" link set eth0 up; } || fail "no network namespace for node$i"
  done
fi
daemon munged munged --foreground --force --socket="$dir/run/munge.sock" --key-file="$dir/munge.key" \
  --log-file="$dir/log/munged.log" --pid-file="$dir/run/munged.pid" --seed-file="$dir/run/munged.seed"
for _ in $(seq 100); do [ -S "$dir/run/munge.sock" ] && break; sleep 0.05; done
[ -S "$dir/run/munge.sock" ] || fail "munged did not start"
daemon slurmctld slurmctld -D -i -f "$SLURM_CONF"
for _ in $(seq 200); do free "$base" || break; sleep 0.05; done
for i in $(seq "$nodes"); do
  cmd=()
  [ $net = 0 ] || cmd=(nsenter "--net=/run/netns/gs$base-node$i")  # not "ip netns exec": it hides /sys/fs/cgroup
  own=(--uts) setup='hostname "$1"; shift; exec "$@"'
  if [ $private = 1 ]; then  # with unshare in front, which takes all of the namespace with it
    own+=(--mount --pid --fork --kill-child --mount-proc) setup="mount -t tmpfs shm /dev/shm && $setup"
  fi
  [ $uts = 0 ] || cmd+=(unshare "${own[@]}" bash -c "$setup" - "node$i")
  cmd+=(slurmd -D -N "node$i" -f "$SLURM_CONF")
  printf '%s\n' "${cmd[@]}" > "$dir/run/node$i.cmd"     # for node-slurm.sh start
  daemon "node$i" "${cmd[@]}"
done
t0=$SECONDS
until [ "$(sinfo -h -N -o '%N %T' 2>/dev/null | grep -c ' idle$')" = "$nodes" ]; do
  while read -r p t n; do alive "$p" "$t" || fail "$n (pid $p) died"; done < "$dir/pids"
  ! sinfo -h -N -o '%T' 2>/dev/null | grep -qE 'inval|drain' || fail "a node was refused: $(sinfo -h -N -o '%N=%T(%E)' | head -n 1)"
  [ $((SECONDS-t0)) -lt "$limit" ] || fail "nodes not idle after $limit s: $(sinfo -h -N -o '%N=%T' 2>&1 | tr '\n' ' ')"
  sleep 0.1
done
cat > "$dir/env.sh" <<ENV
[ -z "\${SLURM_JOB_ID-}" ] || unset \$(env | sed -n 's/^\(SLURMD*_[A-Z0-9_]*\)=.*/\1/p')
export SLURM_CONF='$dir/slurm.conf'
export GSSR_SLURM_DIR='$dir'
ENV
say "$nodes nodes x $gpus GPUs idle; dir $dir; ports $base-$((base+nodes)); stop: $here/stop-slurm.sh $dir"
cat "$dir/env.sh"
