#!/usr/bin/env bash
# Runs all commands on a store and its workspaces, and `elevo doctor`, as the current user. Exits
# with 0 if all of them behave as expected.
#
#   everything.sh FUSE NAMESPACES ELEVO DIRECTORY       FUSE and NAMESPACES are yes or no; the
#                                                       directory is empty
set -euo pipefail
# Trace to a copy of standard error, so that the trace is not part of captured output.
exec {BASH_XTRACEFD}>&2
set -x
fuse=$1 namespaces=$2 elevo=$3 directory=$4

for set in CapInh CapPrm CapEff CapAmb; do
    grep -qx "$set:[[:space:]]*0*" /proc/self/status
done
[[ $(id -u) != 0 ]]
[[ -e /dev/fuse && $fuse == yes || ! -e /dev/fuse && $fuse == no ]]
{ [[ $namespaces == yes ]] && unshare --user true; } || { [[ $namespaces == no ]] && ! unshare --user true; }

export HOME=$directory
mkdir "$directory/work"
cd "$directory/work"

store() { "$elevo" store "$@"; }
ws() { "$elevo" ws "$@"; }

# refused CODE TEXT COMMAND...: the command exits with the code and prints the text
refused() {
    local code=0 said
    said=$("${@:3}" 2>&1) || code=$?
    [[ $code == "$1" && $said == *"$2"* ]]
}

# --- doctor --------------------------------------------------------------------------------------

# says NAME TEXT: the line about a provider contains the text
says() { [[ $("$elevo" doctor | grep "^  $1 ") == *"$2"* ]]; }
[[ $("$elevo" doctor) == *"New workspaces use copy."* ]]
says overlay "run as root"
says copy "works a workspace takes the time and disk space of all its files"
case $namespaces in
yes) says rootless "works like overlay, visible only to commands" ;;
no) says rootless "run \`sysctl user.max_user_namespaces=10000\` as root" ;;
esac
case $fuse$namespaces in
yesyes) says rootless-lazy "works like lazy" ;;
noyes) says rootless-lazy "load the kernel module \`fuse\`, or give the container the device" ;;
*) says rootless-lazy "max_user_namespaces" ;;
esac
[[ -z $(ls -A) ]]

# --- the store -----------------------------------------------------------------------------------

mkdir -p src/deep empty
seq 1000 >src/deep/numbers
echo text >file
ln -s file link
"$elevo" init
"$elevo" commit -m first
"$elevo" import . --tag t
echo more >>file
[[ $("$elevo" status) == $'M\tfile' ]]
"$elevo" restore file --dry-run
"$elevo" commit -m second
"$elevo" log
"$elevo" show
"$elevo" ls -l
[[ $("$elevo" cat t:file) == text ]]
[[ $("$elevo" diff t head) == $'M\tfile' ]]
"$elevo" tag again head
"$elevo" checkout t ../copy
diff ../copy/src src
"$elevo" export head -o ../out.tar
"$elevo" import ../out.tar --tag tarred
[[ -z $("$elevo" diff head tarred) ]]
store gc
store verify
store backup ../backups
store verify --store ../backups/*Z
store copy .elevo/store ../copied-store
store restore-backup ../backups ../restored
store repair --from ../backups

# --- workspaces ----------------------------------------------------------------------------------

# Changes a file, deletes one, moves a directory and creates one.
change='echo changed >file && rm link && mv src moved && mkdir new && echo new >new/file'
changes=$'M\tfile\nD\tlink\nA\tmoved/\nA\tmoved/deep/\nA\tmoved/deep/numbers\nA\tnew/\nA\tnew/file\nD\tsrc/\nD\tsrc/deep/\nD\tsrc/deep/numbers'

# try PROVIDER: runs all commands on workspaces of this provider
try() {
    ws create one --provider "$1"
    ws exec one -- sh -ec "$change"
    [[ $(ws status one) == "$changes" ]]
    [[ $(ws diff -p one) == *"+changed"* ]]
    [[ $(ws show one) == *live* ]]
    [[ $(echo pwd | SHELL=/bin/sh ws shell one) == */one/* ]]
    refused 7 "" ws exec one -- sh -c 'exit 7'
    refused 127 "cannot run" env PATH=/usr/bin:/bin "$elevo" ws exec one -- no-such-program
    ws fork one two three
    ws exec two -- sh -ec 'cat file new/file && test ! -e src && test ! -e link && rm -r moved'
    ws snapshot two -m two
    ws park two
    ws resume two
    [[ $(ws exec two -- ls) == $'empty\nfile\nnew' ]]
    ws ls
    [[ $(ws ls --json) == *"\"provider\":\"$1\""* ]]
    # `path` makes it an ordinary directory, with the changes since the fork.
    ws exec three -- sh -ec 'echo late >late'
    local path
    path=$(ws path three)
    [[ $(cat "$path/file" "$path/late" "$path/new/file") == $'changed\nlate\nnew' ]]
    [[ $(ws status three --since-snapshot) == $'A\tlate' ]]
    [[ $(ws status three) == *$'A\tlate'* ]]
    ws merge three --dry-run
    [[ ! -e $path/src && -e $path/moved/deep/numbers ]]
    refused 4 "in no snapshot" ws rm three
    ws rm --discard one two three
}

try copy

# together PROVIDER: concurrent commands share an overlay, which cannot be deleted while they run
together() {
    ws create shared --provider "$1"
    mkfifo ../begun ../end
    ws exec shared -- sh -ec "echo mine >mine; echo >$HOME/begun; cat $HOME/end; cat yours" >../said &
    local running=$!
    read -r _ <../begun
    [[ $(ws exec shared -- cat mine) == mine ]]
    ws exec shared -- sh -ec 'echo yours >yours'
    refused 5 "commands still run in workspace \`shared\`" ws rm --discard shared
    refused 5 "commands still run in workspace \`shared\`" ws park shared
    refused 5 "commands still run in workspace \`shared\`" ws path shared
    [[ $(ws status shared) == $'A\tmine\nA\tyours' ]]
    echo >../end
    wait "$running"
    [[ $(cat ../said) == *yours ]]
    ws rm --discard shared
    rm ../begun ../end
}

# within PROVIDER: runs elevo inside workspaces, and with nested namespaces
within() {
    ws create inner --provider "$1"
    ws create outer --provider "$1"
    for action in rm park; do
        refused 5 "commands still run in workspace \`inner\`" ws exec inner -- "$elevo" ws "$action" inner
    done
    [[ $(ws exec inner -- "$elevo" ws status inner) == "" ]]
    [[ $(ws exec inner -- "$elevo" ws path inner) == $(ws exec inner -- pwd) ]]
    # A workspace is visible from another one, and is not mounted twice.
    mkfifo ../begun ../end
    ws exec inner -- sh -ec "echo >$HOME/begun; cat $HOME/end" &
    local running=$!
    read -r _ <../begun
    refused 5 "commands still run in workspace \`inner\`" ws exec outer -- "$elevo" ws rm inner
    refused 125 "that this process cannot join" ws exec outer -- "$elevo" ws exec inner -- true
    refused 5 "commands still run in workspace \`inner\`" ws --workspaces ../work/.elevo/workspaces rm inner
    echo >../end
    wait "$running"
    # A command cannot enter a namespace that was created inside the workspace.
    ws exec inner -- unshare --user --map-root-user --mount sh -ec "echo >$HOME/begun; cat $HOME/end" &
    running=$!
    read -r _ <../begun
    refused 125 "that this process cannot join" ws exec inner -- id
    [[ $("$elevo" ws exec inner --json -- id 2>&1) == *'"namespace_refused"'* ]]
    echo >../end
    wait "$running"
    rm ../begun ../end
    # Many concurrent commands.
    local pids=() pid
    for _ in {1..30}; do
        ws exec inner -- true &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
    done
    # `path` reports files that an ordinary directory cannot contain.
    ws exec inner -- mkfifo pipe
    [[ $(ws path inner 2>&1) == *"1 named pipe"* ]]
    ws rm inner outer
}

# served COUNT: waits until COUNT processes serve snapshots
served() {
    local _
    for _ in {1..100}; do
        [[ $(pgrep --uid "$(id -u)" --full "ws serve --store $PWD" | wc -l) != "$1" ]] || return 0
        sleep 0.1
    done
    return 1
}

# Overlays on served snapshots, with fusermount3. The read-only directory of layers prevents the
# server from writing the snapshot out.
over_served() {
    local layers=.elevo/workspaces/layers
    rm -rf "$layers"
    mkdir "$layers"
    touch "$layers/lock"
    chmod 555 "$layers"
    ws create served --provider rootless-lazy
    served 1
    ws exec served -- sh -ec 'grep -q "lowerdir=[^,]*/workspaces/lazy/" /proc/self/mountinfo; grep -q "fuse.elevo" /proc/self/mountinfo'
    ws exec served -- sh -ec "$change"
    [[ $(ws status served) == "$changes" ]]
    pkill -KILL --uid "$(id -u)" --full "ws serve --store $PWD"
    served 0
    [[ $(ws exec served -- cat file new/file empty/../moved/deep/numbers | wc -l) == 1002 ]]
    served 1
    ws rm --discard served
    served 0
    chmod 755 "$layers"
    rm -rf "$layers"
}

if [[ $namespaces == yes ]]; then
    try rootless
    together rootless
    within rootless
    # Other processes do not see the files.
    [[ $(ws create alone --provider rootless) == alone ]]
    [[ -z $(ls .elevo/workspaces/live/alone/files) ]]
    ws exec alone -- test -e file
    ws rm alone
    if [[ $fuse == yes ]]; then
        rm -rf .elevo/workspaces/layers
        try rootless-lazy
        rm -rf .elevo/workspaces/layers
        together rootless-lazy
        served 0
        over_served
    else
        rm -rf .elevo/workspaces/layers
        refused 1 "/dev/fuse" ws create one --provider rootless-lazy
    fi
else
    # The workspace can be created but not entered, and no files are lost.
    ws create one --provider rootless
    refused 125 "elevo doctor" ws exec one -- true
    [[ $(cat "$(ws path one)/file") == $'text\nmore' ]]
    ws rm one
fi
[[ -z $(ls -A .elevo/workspaces/live) && -z $(ls -A .elevo/workspaces/trash) ]]
[[ $(grep --count "$directory" /proc/self/mountinfo) == 0 ]]

# The error names the unreadable file, and nothing is committed.
chmod 000 file
refused 1 "\`file\`" "$elevo" commit
chmod 644 file
