complete -c hakobu -n "__fish_hakobu_using_subcommand copy sync verify digest probe" -a "(hakobu complete locations (commandline -ct) 2>/dev/null)" -d Host
complete -c hakobu -n "__fish_hakobu_using_subcommand disks doctor bench" -f -a "(hakobu complete hosts (commandline -ct) 2>/dev/null)" -d Host
complete -c hakobu -n "__fish_hakobu_using_subcommand jobs; and __fish_seen_subcommand_from show attach pause resume set forget" -f -a "(hakobu complete jobs 2>/dev/null)" -d Job
