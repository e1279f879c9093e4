# Completes the words of gssr in bash 4.4 and newer: printed by `gssr completion bash`.
# Nothing that is typed, and no name of a file or a run, is ever expanded or run here.

_gssr_table() { # command, option: sets flags, and the kind of what stands behind the option, or behind none
    flags='' kind=''
    case $1 in
@COMMANDS@
    esac
}

_gssr_split() { # text: sets words, without their quotes, and where each starts; of the last one quote, and kept
    local text=$1 char last='' inside='' i
    words=() starts=() quote='' kept='' # kept: what readline leaves in front of what it replaces
    for ((i = 0; i < ${#text}; i++)); do
        char=${text:i:1}
        if [[ ! $quote && $char == [[:space:]] ]]; then
            [[ ! $inside ]] || words+=("$last")
            last='' inside='' kept=''
            continue
        fi
        [[ $inside ]] || starts+=("$i")
        inside=1
        case ${quote:-none}$char in
        \'\' | \"\") quote='' ;;
        \"\\) [[ ${text:i+1:1} == [\$\`\"\\] ]] && ((i++)); last+=${text:i:1} ;;
        \'* | \"*) last+=$char ;;
        none\\) ((i++)); last+=${text:i:1} ;;
        none[\"\']) quote=$char kept=$last ;;
        *)
            [[ $COMP_WORDBREAKS$char != *@*@ ]] || kept=$last # it replaces this one itself
            last+=$char
            [[ $char == @ || $COMP_WORDBREAKS != *"$char"* ]] || kept=$last
            ;;
        esac
    done
    [[ $inside ]] || starts+=("${#text}")
    words+=("$last")
}

_gssr_offer() { # values: those with which the word can go on become COMPREPLY, as they are to be typed
    local value rest
    for value in "${@/#/"$stem"}"; do
        [[ $value == "$word"* && $value == "$kept"* && $value != *[[:cntrl:]]* ]] || continue
        rest=${value:${#kept}}
        case $quote in
        \")
            [[ $rest != *'!'* ]] || continue # the shell's history: nothing quotes it there
            rest=${rest//\\/\\\\} rest=${rest//\"/\\\"} rest=${rest//\$/\\\$} rest=${rest//\`/\\\`}
            ;;
        \') rest=${rest//\'/\'\\\'\'} ;;
        *)
            [[ ! $rest ]] || printf -v rest %q "$rest"
            rest=${rest//\\,/,}
            ;;
        esac
        COMPREPLY+=("$rest")
    done
}

_gssr_files() { # endings: folders, and files that end so, or all; where there are none, what readline finds
    local path end typed=${word#"$stem"} home=''
    [[ $typed != '~/'* ]] || home=$HOME typed=$HOME${typed:1}
    for path in "$typed"*; do
        [[ -e $path && $path != *[[:cntrl:]]* ]] || continue
        end=''
        [[ -d $path ]] || for end in "$@"; do [[ $path == *"$end" ]] && break; end=none; done
        [[ $end != none ]] || continue
        [[ ! $home ]] || path="~${path:${#home}}"
        path=$stem$path
        [[ $path != "$kept"* ]] || COMPREPLY+=("${path:${#kept}}")
    done
    if ((${#COMPREPLY[@]})); then compopt -o filenames; else compopt -o default; fi
}

_gssr_behind() { # text behind the cursor: sets behind, its words but for the rest of the one at the cursor
    local quote kept
    local -a words starts
    _gssr_split "$1"
    [[ $1 == [[:space:]]* ]] || words=("${words[@]:1}")
    behind=("${words[@]}")
}

_gssr_asked() { # run|gpus, files: sets found, asked of the first that is a recording
    local kind=$1 name line
    local -a named=()
    shift
    for name in "$@"; do
        [[ $name != '~/'* ]] || name=$HOME${name:1}
        [[ ! $name || $name == -* || ! (-e $name || -e $name.d) ]] || named+=("$name")
    done
    found=()
    while IFS= read -r line; do
        found+=("${line%%$'\t'*}")
    done < <(command gssr completion --values "$kind" "${named[@]}" 2>/dev/null)
}

_gssr_workload() { # where it begins in the line: what completes its command completes it
    local at=0 n=0 spec before
    while ((n < COMP_CWORD)); do
        before=${COMP_LINE:at}
        before=${before%%"${COMP_WORDS[n]}"*}
        ((at + ${#before} < $1)) || break
        ((at += ${#before} + ${#COMP_WORDS[n]}, n++))
    done
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$n"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$n"
    elif ((n == COMP_CWORD)); then
        [[ $word == */* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
        ((${#COMPREPLY[@]})) || compopt -o default
    else
        COMP_LINE=${COMP_LINE:$1} COMP_POINT=$((COMP_POINT - $1))
        COMP_WORDS=("${COMP_WORDS[@]:n}") COMP_CWORD=$((COMP_CWORD - n))
        spec=$(complete -p -- "${COMP_WORDS[0]}" 2>/dev/null)
        if [[ $spec =~ \ -F\ ([^ ]+)\  ]]; then
            "${BASH_REMATCH[1]}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        else
            compopt -o default
        fi
    fi
}

_gssr() {
    local command='' option='' stem='' flags kind many i word quote kept
    local -a words starts behind parts found
    COMPREPLY=()
    _gssr_split "${COMP_LINE:0:COMP_POINT}"
    _gssr_behind "${COMP_LINE:COMP_POINT}"
    word=${words[-1]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        if [[ ! $command ]]; then
            [[ ${words[i]} == --debug ]] || command=${words[i]}
            [[ ! $command || ' @NAMES@ ' == *" $command "* ]] || command=tui # gssr FILE
            continue
        fi
        _gssr_table "$command" "$option"
        many=${kind%% *}
        if [[ $option && ! ($many == *[+?] && ${words[i]} == -*) ]]; then
            [[ $many == *+ ]] || option=''
            continue
        fi
        option=''
        _gssr_table "$command" ''
        if [[ $kind == command && (${words[i]} == -- || ${words[i]} != -*) ]]; then
            [[ ${words[i]} != -- ]] || ((i++))
            _gssr_workload "${starts[i]}"
            return
        fi
        [[ ${words[i]} == -* ]] || continue
        _gssr_table "$command" "${words[i]}"
        [[ ! $kind ]] || option=${words[i]}
    done
    if [[ ! $command ]]; then
        _gssr_offer @NAMES@ --help --version
        ((${#word} && ${#COMPREPLY[@]})) || _gssr_files .sql .json .json.gz .sqlite .otf2 .cubex
        return
    fi
    if [[ ${words[-2]} == *[\<\>] ]]; then
        compopt -o default
        return
    fi
    if [[ ! $option && $word == --*=* ]]; then
        option=${word%%=*} stem=${word%%=*}=
    fi
    _gssr_table "$command" "$option"
    IFS=' ' read -ra parts <<<"$kind"
    many=${parts[0]}
    if [[ $word == -* && ! $stem && (! $option || $many == *[+?]) ]]; then
        IFS=' ' read -ra parts <<<"$flags"
        _gssr_offer "${parts[@]}"
        return
    fi
    found=("${parts[@]:1}")
    case ${many%[+?]} in
    words)
        _gssr_offer "${found[@]}"
        [[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace
        ((${#COMPREPLY[@]})) || [[ $word != *:* ]] || compopt -o default # replay:FILE
        ;;
    list | gpus)
        [[ $many != gpus* ]] || _gssr_asked gpus "${words[@]:1:i-1}" "${behind[@]}"
        [[ $word != *,* ]] || stem=${word%,*},
        for i in "${!found[@]}"; do
            [[ ,${stem#--*=} != *",${found[i]},"* ]] || unset "found[i]"
        done
        _gssr_offer "${found[@]}"
        compopt -o nospace
        ;;
    run)
        _gssr_asked run "${words[@]:1:i-1}" "${behind[@]}"
        _gssr_offer "${found[@]}"
        ;;
    files) _gssr_files "${found[@]}" ;;
    folder) _gssr_files / ;;
    recordings)
        if [[ $word == *@* && -e ${word%@*} ]]; then
            stem=${word%@*}@
            _gssr_asked run "${word%@*}"
            _gssr_offer "${found[@]}"
        else
            _gssr_files "${found[@]}"
        fi
        ;;
    command)
        [[ $word == */* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
        ((${#COMPREPLY[@]})) || compopt -o default
        ;;
    esac
}

complete -F _gssr gssr
