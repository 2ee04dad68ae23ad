# Undoes what a runtime of containers left when it was killed. Expects: directory, bridge, network.

# Mounts of the machine first: after that only the containers' own namespaces mention the directory.
unmount() {
    awk '{ print $5 }' /proc/self/mountinfo | grep "^$directory/" | sort -r | while read -r mount; do
        umount -l "$mount"
    done
}

# Whose root is under the directory: the containers. Not processes that only copied our mounts for a moment.
contained() {
    grep -lE "^[0-9]+ [0-9]+ [0-9:]+ ([^ ]* / .*$directory/|[^ ]*$directory/[^ ]* / )" /proc/[0-9]*/mountinfo |
        cut -d/ -f3
}

# The runtime's own helpers, which name the directory: shims, monitors, a containerd that dockerd began.
helpers() {
    grep -lF "$directory/" /proc/[0-9]*/cmdline | cut -d/ -f3 | while read -r pid; do
        case $(cat "/proc/$pid/comm") in
        containerd* | conmon | dockerd | podman | runc) echo "$pid" ;;
        esac
    done
}

ids=$(ls "$directory/data/containers" "$directory/root/overlay-containers" \
    "$directory/state/io.containerd.runtime.v2.task/k8s.io" | grep -E '^[0-9a-f]{64}$')
sockets=$(find "$directory" -name address -path '*io.containerd.runtime*' -exec cat {} + | tr -d '\0' |
    sed 's,unix://,\n,g')

for pid in $(helpers); do kill -KILL "$pid"; done
unmount
# Until none is left: one may have begun another while the list was made, and a killed process does not end at once.
tries=0
left=$(contained; helpers)
while [ -n "$left" ] && [ "$tries" -lt 100 ]; do
    for pid in $left; do kill -KILL "$pid"; done
    tries=$((tries + 1))
    sleep 0.05
    left=$(contained; helpers)
done
unmount

for socket in $sockets; do
    case $socket in /run/containerd/s/*) rm -f "$socket" ;; esac
done
for id in $ids; do
    # Where runc keeps what it runs, by default one place for all.
    rm -rf "/run/runc/$id" "/run/containerd/runc/k8s.io/$id"
    find /sys/fs/cgroup -depth -type d -name "*$id*" -exec rmdir {} +
done
ip link delete "$bridge"
iptables --wait -D FORWARD -i "$bridge" -o "$bridge" -j ACCEPT
rm -f "/var/lib/cni/results/$network-"* "/var/lib/cni/cache/results/$network-"*
iptables-save -t nat | grep -F "name: \\\"$network\\\"" | while read -r rule; do
    chain=${rule##* }
    echo "$rule" | sed 's/^-A/-D/' | xargs iptables --wait -t nat
    iptables --wait -t nat -F "$chain"
    iptables --wait -t nat -X "$chain"
done
