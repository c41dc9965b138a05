
# Completes hosts, files and IDs of jobs, and leaves the rest to _hakobu.
_hakobu_all() {
    _hakobu "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" verb="" part="" word what
    [[ $cur == -* ]] && return
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $word == -* ]]; then
            continue
        elif [[ -z $verb ]]; then
            verb=$word
        elif [[ -z $part ]]; then
            part=$word
        fi
    done
    case $verb in
        copy | sync | verify | digest | probe) what=locations ;;
        disks | doctor | bench) what=hosts ;;
        jobs)
            case $part in
                show | attach | pause | resume | set | forget) what=jobs ;;
                *) return ;;
            esac
            ;;
        *) return ;;
    esac
    # The value of an option.
    case $prev in
        @VALUED@) return ;;
    esac
    # Bash takes a colon and an @ for words of their own.
    if [[ $what == locations && ($cur == : || $prev == :) ]]; then
        COMPREPLY=()
        compopt +o default +o bashdefault
        return
    fi
    [[ $cur == @ ]] && cur=""
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" complete "$what" "$cur" 2>/dev/null)
    if [[ $what != locations ]]; then
        compopt +o default +o bashdefault
        return
    fi
    # Without hosts, bash completes files by itself.
    [[ ${#COMPREPLY[@]} -eq 0 ]] && return
    compopt -o nospace
    [[ $prev == @ ]] && return
    while IFS= read -r word; do
        if [[ -d $word ]]; then
            COMPREPLY+=("$(printf %q "$word")/")
        else
            COMPREPLY+=("$(printf %q "$word") ")
        fi
    done < <(compgen -f -- "$cur")
}

complete -F _hakobu_all -o bashdefault -o default hakobu
