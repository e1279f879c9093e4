#compdef gssr
# Completes the words of gssr in zsh: printed by `gssr completion zsh`.
# Nothing that is typed, and no name of a file or a run, is ever expanded or run here.

_gssr_words() { # words
    local expl
    if compset -P replay:; then
        _files -g "*.sql(-.)"
    else
        _wanted values expl value compadd -- ${argv:#*:}
        compadd -S '' -- ${(M)argv:#*:}
    fi
}

_gssr_list() { # words, of which several can stand with commas between
    local -a values=("$@")
    _sequence compadd -a values
}

_gssr_asked() { # run|gpus, files: sets values and shown, asked of the first that is a recording
    local kind=$1 name line
    local -a named
    shift
    for name; do
        name=${(Q)name}
        [[ $name != '~/'* ]] || name=$HOME${name:1}
        [[ $name == -* || ! ( -e $name || -e $name.d ) ]] || named+=("$name")
    done
    values=() shown=()
    for line in "${(@f)$(command gssr completion --values $kind "${named[@]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  }")
    done
}

_gssr_run() {
    local expl
    local -a values shown
    _gssr_asked run "${(@)words[1,CURRENT-1]}" "${(@)words[CURRENT+1,-1]}"
    _wanted runs expl run compadd -l -d shown -a values
}

_gssr_gpus() {
    local -a values shown
    _gssr_asked gpus "${(@)words[1,CURRENT-1]}" "${(@)words[CURRENT+1,-1]}"
    _sequence compadd -d shown -a values
}

_gssr_recordings() { # endings
    local -a values shown
    local expl file=${(Q)PREFIX%@*}
    if [[ $PREFIX == *@* && -e $file ]]; then
        _gssr_asked run "$file"
        compset -P '*@'
        _wanted runs expl run compadd -l -d shown -a values
    else
        _files -g "*(${(j:|:)argv})(-.)"
    fi
}

_gssr() {
    local curcontext=$curcontext state line ret=1
    local -A opt_args
    local -a options
    _arguments -C '(- *)'{-h,--help}'[say how gssr is used]' '(- *)--version[say which version this is]' \
        '--debug[show where an error came from]' '1: :->first' '*:: :->rest' && ret=0
@COMMANDS@
    case $state in
    first)
        _alternative 'commands:command:(( $gssr_commands ))' 'files:recording:_files -g "*.sql(-.)"' && ret=0
        ;;
    rest) _arguments -S $options && ret=0 ;;
    esac
    return ret
}

if [[ $funcstack[1] == _gssr ]]; then _gssr "$@"; else compdef _gssr gssr; fi # else it is read by source
