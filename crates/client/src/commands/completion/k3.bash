# bash completion for k3: source <(k3 completion bash)
_k3() {
    local line="${COMP_LINE:0:$COMP_POINT}" current words
    read -r -a words <<< "$line"
    current=""
    if [[ "$line" != *" " ]]; then
        current="${words[-1]}"
        unset 'words[-1]'
    fi
    mapfile -t COMPREPLY < <("${words[0]:-k3}" __complete -- "${words[@]:1}" "$current" 2>/dev/null)
    # Bash takes what comes before a colon for a word of its own.
    if declare -F __ltrim_colon_completions >/dev/null; then
        __ltrim_colon_completions "$current"
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *= ]]; then
        compopt -o nospace
    fi
}
complete -o default -F _k3 k3
