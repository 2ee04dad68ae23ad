# Runs one service, and outlives its owner by the moment it takes to end it.
#
# Orders are lines on standard input. When the input ends, the owner has ended, whatever the reason:
# the service is killed and its directory removed.
directory=$1
shift
pid=

end() {
    [ -n "$pid" ] || return 0
    # The group too: a service may have children (mariadb-install-db does).
    kill -KILL "-$pid" 2>/dev/null
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    pid=
}

# A runtime of containers leaves more behind than its own process: its directory then holds what undoes that.
leave() {
    end
    [ ! -e "$directory/clean.sh" ] || sh "$directory/clean.sh" >/dev/null 2>&1 </dev/null
    rm -rf "$directory"
}

trap 'leave; exit' HUP INT TERM

while read -r order; do
    case $order in
    start)
        end
        setsid "$@" </dev/null >"$directory/log" 2>&1 &
        pid=$!
        ;;
    kill) end ;;
    pause) kill -STOP "-$pid" ;;
    resume) kill -CONT "-$pid" ;;
    esac
    echo "$pid"
done

leave
