#compdef k3
# zsh completion for k3: k3 completion zsh > "${fpath[1]}/_k3"
_k3() {
    local -a offered
    offered=("${(@f)$(${words[1]} __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    offered=(${offered:#})
    if (( ${#offered} )); then
        compadd -- "${offered[@]}"
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_k3" ]; then
    _k3
else
    compdef _k3 k3
fi
