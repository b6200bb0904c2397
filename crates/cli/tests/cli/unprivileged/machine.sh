#!/usr/bin/env bash
# Runs everything.sh as an ordinary user without capabilities, with or without a FUSE device and the
# right to create user namespaces. Run it as root, in a separate mount namespace:
#
#   machine.sh FUSE NAMESPACES SCRIPT ELEVO DIRECTORY       FUSE and NAMESPACES are yes or no
set -euo pipefail
fuse=$1 namespaces=$2
shift 2

mount -t tmpfs -o mode=755 tmpfs /dev
for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
    read -r name major minor <<<"$device"
    mknod -m 666 "/dev/$name" c "$major" "$minor"
done
ln -s /proc/self/fd /dev/fd
if [[ $fuse == yes ]]; then
    mknod -m 666 /dev/fuse c 10 229
fi

nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)
if [[ $namespaces == yes ]]; then
    exec "${nobody[@]}" bash "$1" "$fuse" "$namespaces" "${@:2}"
fi

# The limit is per user namespace: the script runs in one that maps all users and may not create
# others. A program in it is root only if it is started after the maps are written.
coproc unshare --user --mount bash -c '
    echo here && read -r _
    exec bash -euc "echo 0 >/proc/sys/user/max_user_namespaces; exec \"\$@\" </dev/null >&2" bash "$@"
' bash "${nobody[@]}" bash "$1" "$fuse" "$namespaces" "${@:2}"
# shellcheck disable=SC2154 # coproc sets it
pid=$COPROC_PID
read -r _ <&"${COPROC[0]}"
echo "0 0 65536" >"/proc/$pid/uid_map"
echo "0 0 65536" >"/proc/$pid/gid_map"
echo go >&"${COPROC[1]}"
wait "$pid"
