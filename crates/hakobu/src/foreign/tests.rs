use super::*;

fn answer(verb: &str, line: &str) -> Option<Answer> {
    let words = shell::split(OsStr::new(line)).unwrap();
    let words = [OsString::from("hakobu"), OsString::from(verb)].into_iter().chain(words);
    check(&words.collect::<Vec<_>>())
}

/// The lines that reject a copy; none if it is not rejected.
fn lines(line: &str) -> Vec<String> {
    lines_of("copy", line)
}

fn lines_of(verb: &str, line: &str) -> Vec<String> {
    match answer(verb, line) {
        Some(Answer::Rejected(lines)) => lines,
        _ => Vec::new(),
    }
}

/// Returns the command line without the accepted flags, and the note.
fn accepted(verb: &str, line: &str) -> (String, String) {
    match answer(verb, line) {
        Some(Answer::Accepted { arguments, note }) => (shell::quote_all(&arguments), note),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn our_own_options_and_their_values_are_left_to_the_parser() {
    for line in [
        "a b",
        "-n a b",
        "-nqv a b",
        "-e 'ssh -a' a b",
        "-e -P a b",
        "-e'ssh -p 22' a b",
        "--ssh -P a b",
        "--ssh=-r a b",
        "--lanes 4 a b",
        "--unknown a b",
        "-Z a b",
        "-é a b",
        "-aé a b",
        "-",
        "-- -a -r",
        "- a",
        "--help",
        "-h",
    ] {
        assert_eq!(answer("copy", line), None, "{line}");
    }
    let other_verb = ["hakobu", "man", "-a"].map(OsString::from);
    assert_eq!(check(&other_verb), None);
}

#[test]
fn flags_that_ask_for_what_happens_anyway_are_accepted_with_a_note() {
    for (line, ours, words) in [
        ("-a d h:/b", "d h:/b", "-a: directories, links"),
        ("-avz d h:/b", "-v d h:/b", "; -z: data is compressed"),
        ("-avzh --progress d h:/b", "-v d h:/b", "--progress: progress is always shown"),
        ("-r -p d h:/b", "d h:/b", "-r -p: directories"),
        ("-rP d h:", "d h:", "-P: progress"),
        ("-C -3 one:/d two:/b", "one:/d two:/b", "-C: data is compressed"),
        ("-aHAXS --partial d h:/b", "d h:/b", "-H -A -X -S: hard links"),
        ("-ax d h:/b", "-x d h:/b", "-a"),
        ("--archive --info=progress2 'a b' h:/b", "'a b' h:/b", "--info: progress"),
        ("--info progress2 d h:/b", "d h:/b", "--info"),
        ("-n -a --lanes 2 d -- h:/b", "-n --lanes 2 d -- h:/b", "-a"),
        ("--compress a b", "a b", "--compress: data is compressed"),
        ("-aB 8192 d h:/b", "d h:/b", "-B: hakobu chooses"),
        ("--stats -h d h:/b", "d h:/b", "-h: sizes"),
        ("--resume --overwrite d h:/b", "d h:/b", "--resume: an interrupted copy resumes"),
        ("-a", "", "-a"),
        ("-a -h", "-h", "-a"),
        ("--numeric-ids d h:/b", "d h:/b", "--numeric-ids: owners are preserved by number"),
        ("--stats d h:/b", "d h:/b", "--stats: the figures are in the summary"),
        ("--partial-dir=.part d h:/b", "d h:/b", "--partial-dir: an incomplete file"),
        ("-a --block-size=4096 d h:/b", "d h:/b", "--block-size: hakobu chooses"),
        ("-aW d h:/b", "d h:/b", "-W: copy always sends whole files"),
        ("-a0 --files-from l d h:/b", "--files-from l d h:/b", "-0: NUL-separated"),
    ] {
        let (command, note) = accepted("copy", line);
        assert_eq!(command, format!("hakobu copy {ours}").trim_end(), "{line}");
        assert!(note.contains(words), "{line}: {note}");
    }
    assert_eq!(accepted("copy", "-a -a d h:/b").1.matches("-a").count(), 1);
    assert_eq!(accepted("verify", "-r d h:/b").0, "hakobu verify d h:/b");
    assert_eq!(accepted("sync", "-a --no-whole-file --force d/ h:/b").0, "hakobu sync d/ h:/b");
    assert_eq!(answer("sync", "-W d/ h:/b"), None);
    assert_eq!(accepted("sync", "-aW d/ h:/b").0, "hakobu sync -W d/ h:/b");
    // Flags that verify does not support are left to the parser.
    assert_eq!(answer("verify", "-a -L d h:/b"), None);
}

#[test]
fn a_line_that_can_be_put_right_is_printed_right() {
    for (line, right) in [
        ("-P 22 d h:/b", "--ssh 'ssh -p 22' d h:/b"),
        ("-P22 d h:/b", "--ssh 'ssh -p 22' d h:/b"),
        ("-rP 22411 d h:/b", "--ssh 'ssh -p 22411' d h:/b"),
        ("-p 2222 -J gate d h:/b", "--ssh 'ssh -p 2222 -J gate' d h:/b"),
        ("-o Port=22 d h:/b", "--ssh 'ssh -o Port=22' d h:/b"),
        ("-oPort=22 d h:/b", "--ssh 'ssh -o Port=22' d h:/b"),
        ("-i .ssh/id_backup d h:/b", "--ssh 'ssh -i .ssh/id_backup' d h:/b"),
        ("-C -c aes128-gcm@openssh.com d h:/b", "--cipher=aes-128-gcm d h:/b"),
        ("-4 d h:/b", "--ssh 'ssh -4' d h:/b"),
        ("-ac d h:/b", "--compare=digest d h:/b"),
        ("--rsh='ssh -p 22' -a d h:/b", "'--ssh=ssh -p 22' d h:/b"),
        ("-T 4 d h:/b", "--lanes=4 d h:/b"),
        ("-j 12 d h:/b", "--lanes=12 d h:/b"),
        ("-j12 d h:/b", "--lanes=12 d h:/b"),
        ("--parallel 4 d h:/b", "--lanes=4 d h:/b"),
        ("--threads=4 d h:/b", "--lanes=4 d h:/b"),
        ("--transfers 4 d h:/b", "--lanes=4 d h:/b"),
        ("-a --no-owner d h:/b", "--preserve=no-owner d h:/b"),
        ("-a --delay-updates d h:/b", "d h:/b"),
        ("--modify-window=1 d h:/b", "d h:/b"),
        ("--copy-devices d h:/b", "d h:/b"),
    ] {
        let said = lines(line);
        assert_eq!(said.last(), Some(&format!("hint: try: hakobu copy {right}")), "{line}: {said:?}");
        assert!(said[0].starts_with("error: -"), "{line}");
    }
}

#[test]
fn what_cannot_be_had_is_said_without_a_wrong_suggestion() {
    for (line, words) in [
        ("-a --delete-excluded d h:/b", "hakobu sync --delete"),
        ("--force image h:/dev/sdb", "--confirm ID"),
        ("-l 8000 d h:/b", "--bwlimit"),
        ("-aC d h:/b", "version control"),
        ("--filter '- *.o' d h:/b", "--exclude"),
        ("-N d h:/b", "not preserved"),
        ("-u d h:/b", "not in this version"),
        ("-i key d h:/b", "ssh -i"),
        ("-L d h:/b", "link/"),
        ("--port 22 d h:/b", "ssh://host:22/"),
        ("--partial --inplace d h:/b", "hakobu sync --in-place"),
        ("-y d h:/b", "--confirm ID"),
        ("-i d h:/b", "--itemize"),
        ("-d d h:/b", "--exclude '/*/*'"),
        ("--dirs d h:/b", "--exclude '/*/*'"),
        ("-m d h:/b", "directories are always created"),
        ("-M --fake-super d h:/b", "--sudo"),
        ("--compress-level=9 d h:/b", "--compress zstd:LEVEL"),
        ("--ignore-missing-args d h:/b", "exit code 3"),
        ("--write-batch=f d h:/b", "recorded"),
    ] {
        let said = lines(line);
        assert!(said.iter().any(|line| line.contains(words)), "{line}: {said:?}");
        assert!(!said.iter().any(|line| line.starts_with("hint: try:")), "{line}: {said:?}");
    }
}

#[test]
fn sync_knows_when_rsync_deletes() {
    for (line, right) in [
        ("-a --delete d/ h:/b", "--delete d/ h:/b"),
        ("-a --delete-after d/ h:/b", "--delete d/ h:/b"),
        ("-aHAX --numeric-ids --del --force d/ h:/b", "--delete d/ h:/b"),
        ("-a --delete-before d/ h:/b", "--delete-during d/ h:/b"),
        ("-a --inplace d/ h:/b", "--in-place d/ h:/b"),
        ("-a --delete --fsync d/ h:/b", "--delete d/ h:/b"),
    ] {
        let right = format!("hakobu sync {right}");
        match answer("sync", line) {
            Some(Answer::Accepted { arguments, .. }) => assert_eq!(shell::quote_all(&arguments), right),
            Some(Answer::Rejected(said)) => assert_eq!(said.last(), Some(&format!("hint: try: {right}"))),
            None => panic!("{line}"),
        }
    }
    // These flags mean the same under the verb that does not delete, or without a verb.
    for (line, right) in [
        ("-aHAX --numeric-ids --delete d/ h:/b", "--delete d/ h:/b"),
        ("--delete d/ h:/b", "--delete d/ h:/b"),
        ("--delete-after d/ h:/b", "--delete d/ h:/b"),
    ] {
        let said = lines(line);
        assert!(said[0].starts_with("error: --delete") && said[0].contains("copy never deletes"), "{said:?}");
        assert_eq!(said.last().unwrap(), &format!("hint: try: hakobu sync {right}"), "{line}: {said:?}");
    }
    for (line, words) in [
        ("-ai d/ h:/b", "--itemize"),
        ("-f '- x' d/ h:/b", "--filter-file"),
        ("-O d/ h:/b", "times are always preserved"),
        ("-ay d/ h:/b", "not in this version"),
        ("--delete-missing-args d/ h:/b", "--files-from"),
        ("-a --delete --delete-excluded d/ h:/b", "never deleted"),
        ("-a --remove-source-files d/ h:/b", "at the source"),
        ("-a --chown www:www d/ h:/b", "--by-name"),
        ("-a --link-dest=../monday d/ h:/b", "cp -al"),
    ] {
        let said = lines_of("sync", line);
        assert!(said.iter().any(|line| line.contains(words)), "{line}: {said:?}");
        let is_dropped = words == "--itemize";
        assert_eq!(said.iter().any(|line| line.starts_with("hint: try:")), is_dropped, "{line}: {said:?}");
    }
}

#[test]
fn the_same_answer_is_given_once_per_flag() {
    assert_eq!(lines("-L -L d h:/b").len(), 1);
}

#[test]
fn no_foreign_flag_shadows_one_of_ours() {
    for (name, _) in FlagScan::new("copy").own {
        assert!(name.len() == 2 || find_long("copy", &name).is_none(), "{name}");
        let mut letters = name.chars().skip(1);
        if let (Some(letter), None) = (letters.next(), letters.next()) {
            assert!(find_short_of_rsync(letter, None).is_none(), "{name}");
        }
    }
}

#[test]
fn operands_of_dd_become_source_and_target() {
    for (line, right) in [
        ("if=/dev/sda of=/dev/sdb bs=4M status=progress", "/dev/sda /dev/sdb"),
        ("of=h:/dev/sdb if=/dev/sda conv=fsync", "/dev/sda h:/dev/sdb"),
        ("of=/dev/sdb", "- /dev/sdb"),
        ("if=/dev/sda", "/dev/sda -"),
        ("--live if=/dev/sda of=image", "--live /dev/sda image"),
    ] {
        let said = lines(line);
        assert_eq!(said.last().unwrap(), &format!("hint: try: hakobu copy {right}"), "{line}: {said:?}");
    }
    let said = lines("if=/dev/sda of=x bs=1M count=10");
    assert!(
        said.iter().any(|line| line.contains("count="))
            && said.iter().all(|line| !line.starts_with("hint: try:"))
    );
    // Without one of these two it is a name like any other.
    assert_eq!(lines("bs=4M h:/b"), Vec::<String>::new());
}
