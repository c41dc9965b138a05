_hakobu_locations() {
    local -a hosts
    local ret=1
    if compset -P '*:'; then
        return 1
    fi
    hosts=(${(f)"$(hakobu complete locations "$PREFIX" 2>/dev/null)"})
    (( $#hosts )) && compadd -S '' -- $hosts && ret=0
    _files && ret=0
    return ret
}

_hakobu_hosts() {
    local -a hosts
    hosts=(${(f)"$(hakobu complete hosts "$PREFIX" 2>/dev/null)"})
    compadd -- $hosts
}

_hakobu_jobs() {
    local -a jobs
    jobs=(${(f)"$(hakobu complete jobs 2>/dev/null)"})
    compadd -- $jobs
}

