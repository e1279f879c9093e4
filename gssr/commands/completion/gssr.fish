# Completes the words of gssr in fish 3.4 and newer: printed by `gssr completion fish`.
# Nothing that is typed, and no name of a file or a run, is ever expanded or run here.

function __gssr_before # the words before the cursor, without gssr and --debug
    set -l words (commandline -opc)
    set -e words[1]
    test "$words[1]" = --debug; and set -e words[1]
    test (count $words) -gt 0; and printf '%s\n' $words
end

function __gssr_at -a wanted # whether the options of this command are to be completed
    set -l words (__gssr_before)
    set -l command $words[1]
    if test -z "$command"
        test $wanted = none
        return
    end
    contains -- $command @NAMES@; or set command tui # gssr FILE
    test $wanted = $command; or return
    test $command != profile; or test (__gssr_workload_at $words) -eq 0
end

function __gssr_workload_at # words: which is the first of the command that gssr profile runs; 0 for none
    set -l skip
    for i in (seq 2 (count $argv))
        if test -n "$skip"
            set skip
        else if test "$argv[$i]" = --
            math $i + 1
            return
        else if not string match -q -- '-*' $argv[$i]
            echo $i
            return
        else
            contains -- $argv[$i] $__gssr_with_value; and set skip 1
        end
    end
    echo 0
end

function __gssr_in_workload
    set -l words (__gssr_before)
    test "$words[1]" = profile; and test (__gssr_workload_at $words) -gt 0
end

function __gssr_workload # what completes its command completes it
    set -l words (__gssr_before)
    set -l at (__gssr_workload_at $words)
    if test $at -gt (count $words)
        __fish_complete_command
    else
        complete -C (string join ' ' -- (string escape -- $words[$at..-1]) (commandline -ct))
    end
end

function __gssr_word # the word at the cursor, without the --option= in front of it
    string replace -r -- '^--[a-z-]+=' '' (commandline -ct)
end

function __gssr_words # words: each with an empty description, for which fish would show that of the option
    printf '%s\t\n' $argv
end

function __gssr_files # endings: files that end so, and folders; where there are none, all
    set -l ends (string escape --style=regex -- $argv | string join '|')
    set -l all (complete -C "'' "(__gssr_word))
    set -l found (string match -r -- "^.*(?:$ends|/)\$" $all; or string join \n -- $all)
    test (count $found) -gt 0; and __gssr_words $found
end

function __gssr_list # words, of which several can stand with commas between: those that do not yet
    set -l before (__gssr_word | string match -r -- '^.*,')
    set -l taken (string split , -- $before)
    for word in $argv
        contains -- (string split -m 1 \t -- $word)[1] $taken; or printf '%s\n' "$before$word"
    end
end

function __gssr_asked # run|gpus, files: asked of the first that is a recording
    set -l named
    for name in $argv[2..-1]
        string match -q -- '-*' $name; and continue
        set name (string replace -r -- '^~/' $HOME/ $name)
        test -e $name -o -e $name.d; and set -a named $name
    end
    command gssr completion --values $argv[1] $named 2>/dev/null
end

function __gssr_run
    __gssr_asked run (commandline -op)[2..-1]
end

function __gssr_gpus
    __gssr_list (__gssr_asked gpus (commandline -op)[2..-1])
end

function __gssr_recordings # endings
    set -l file (__gssr_word | string replace -rf -- '@[^@]*$' '')
    if test -n "$file"; and test -e "$file"
        printf '%s\n' $file@(__gssr_asked run $file)
    else
        __gssr_files $argv
    end
end

function __gssr_first
    __gssr_files .sql .json .json.gz .sqlite .otf2 .cubex
end

complete -c gssr -f
complete -c gssr -n '__gssr_at none' -s h -l help -d 'say how gssr is used'
complete -c gssr -n '__gssr_at none' -l version -d 'say which version this is'
complete -c gssr -n '__gssr_at none' -k -a '(__gssr_first)'
complete -c gssr -n __gssr_in_workload -x -a '(__gssr_workload)'
@COMMANDS@
