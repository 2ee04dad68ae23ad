# fish completion for k3: k3 completion fish > ~/.config/fish/completions/k3.fish
function __k3_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete -- $words[2..-1] "$current" 2>/dev/null
end
complete -c k3 -f -n 'test -n "$(__k3_complete)"' -a '(__k3_complete)'
