//! Detects the installed tools and their variants.

/// A variant of `nc`. They differ in how they exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Netcat {
    /// OpenBSD's `nc`, which exits with `-N`.
    OpenBsd,
    /// Nmap's `ncat`, which exits with `--send-only`.
    Ncat,
    /// The traditional `nc`, which exits with `-q 0`.
    Traditional,
}

impl Netcat {
    /// Returns the variant from its help text; `None` for others, whose options are not known.
    #[must_use]
    pub fn of(help: &str) -> Option<Self> {
        let help = help.to_ascii_lowercase();
        if help.contains("busybox") {
            return None;
        }
        if help.contains("ncat") && help.contains("nmap") {
            return Some(Self::Ncat);
        }
        // The option letters of Debian's OpenBSD variant include the N. Those of other BSD variants may not.
        if help.contains("openbsd") || help.contains("[-46cddfhklnn") {
            return Some(Self::OpenBsd);
        }
        help.contains("[v1.").then_some(Self::Traditional)
    }
}

/// The tools of one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineTools {
    /// The names of the installed programs.
    pub programs: Vec<String>,
    /// The variant of its `nc`.
    pub netcat: Option<Netcat>,
    /// The first line of its `nc`'s help text.
    pub netcat_says: String,
}

/// The tools of both machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// The tools of this machine.
    pub here: MachineTools,
    /// The tools of the host, if there is one.
    pub there: Option<MachineTools>,
    /// The names of the ciphers that ssh on this machine offers and the sshd on the host accepts.
    pub ssh_ciphers: Vec<String>,
}

/// The programs to look for.
pub const WANTED: [&str; 22] = [
    "dd", "scp", "nc", "mbuffer", "rsync", "tar", "cp", "ssh", "gzip", "lzop", "pigz", "zstd", "openssl",
    "sync", "awk", "mktemp", "df", "cat", "ls", "ln", "mkdir", "rm",
];
/// The programs without which nothing can be measured on the host. They create, list and remove its directories.
pub const NEEDED_THERE: [&str; 5] = ["df", "ln", "ls", "mkdir", "rm"];

impl MachineTools {
    /// Returns true if a program is installed.
    #[must_use]
    pub fn has(&self, program: &str) -> bool {
        self.programs.iter().any(|name| name == program)
    }
}

/// Returns the script that lists the tools of a machine, as lines of `tool NAME` and `nc WORDS`.
#[must_use]
pub fn question() -> String {
    format!(
        "for tool in {}; do command -v $tool >/dev/null 2>&1 && printf 'tool %s\\n' $tool; done\n\
         command -v nc >/dev/null 2>&1 && nc -h 2>&1 </dev/null | (count=0; while [ $count -lt 4 ] && \
         IFS= read -r line; do printf 'nc %s\\n' \"$line\"; count=$((count + 1)); done)\n:\n",
        WANTED.join(" ")
    )
}

/// Parses a machine's answer to [`question`].
#[must_use]
pub fn answer<'a>(lines: impl IntoIterator<Item = &'a str>) -> MachineTools {
    let (mut programs, mut help) = (Vec::new(), String::new());
    for line in lines {
        match line.split_once(' ') {
            Some(("tool", name)) if WANTED.contains(&name) => programs.push(name.to_owned()),
            Some(("nc", words)) => {
                help.push_str(words);
                help.push('\n');
            }
            _ => {}
        }
    }
    let netcat = programs.iter().any(|name| name == "nc").then(|| Netcat::of(&help)).flatten();
    let netcat_says = help.lines().next().unwrap_or_default().chars().take(80).collect();
    MachineTools { programs, netcat, netcat_says }
}

/// Returns the secure ciphers of `ssh -Q cipher`: those in counter mode, or authenticated. The others are broken or
/// slow, and current servers refuse them.
#[must_use]
pub fn offered_ciphers(answer: &str) -> Vec<String> {
    let sound = |name: &&str| {
        let plain = name.trim_end_matches("@openssh.com");
        matches!(
            plain,
            "chacha20-poly1305" | "aes128-ctr" | "aes192-ctr" | "aes256-ctr" | "aes128-gcm" | "aes256-gcm"
        )
    };
    answer.lines().map(str::trim).filter(sound).map(str::to_owned).collect()
}

/// Returns the offered ciphers that the server accepts, according to the proposal in the output of `ssh -vv`. Returns
/// all of them if that cannot be parsed.
#[must_use]
pub fn accepted_ciphers(offered: &[String], debug: &str) -> Vec<String> {
    let mut lines = debug.lines().skip_while(|line| !line.contains("peer server KEXINIT proposal"));
    let proposal = lines.find_map(|line| line.split_once("ciphers ctos: "));
    match proposal {
        None => offered.to_vec(),
        Some((_, list)) => {
            let list: Vec<&str> = list.trim().split(',').collect();
            offered.iter().filter(|name| list.contains(&name.as_str())).cloned().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_nc_are_told_apart() {
        let kinds = [
            (
                "OpenBSD netcat (Debian patchlevel 1.219-1)\nusage: nc [-46CDdFhklNnrStUuvZz] [-I length]",
                Some(Netcat::OpenBsd),
            ),
            ("usage: nc [-46CDdFhklNnrStUuvz]", Some(Netcat::OpenBsd)),
            ("Ncat 7.93 ( https://nmap.org/ncat )\nUsage: ncat [options]", Some(Netcat::Ncat)),
            ("[v1.10-47]\nconnect to somewhere:\tnc [-options] hostname port", Some(Netcat::Traditional)),
            ("BusyBox v1.35.0 (Debian) multi-call binary.\nUsage: nc [OPTIONS]", None),
            ("", None),
        ];
        for (help, kind) in kinds {
            assert_eq!(Netcat::of(help), kind, "{help}");
        }
    }

    #[test]
    fn a_machine_tells_its_tools() {
        let found = answer(["Welcome to x", "tool dd", "tool nc", "tool vi", "nc [v1.10-47]", "tool", ""]);
        assert_eq!(found.programs, ["dd", "nc"]);
        assert_eq!(
            (found.netcat, found.has("dd"), found.has("vi")),
            (Some(Netcat::Traditional), true, false)
        );
        assert_eq!(answer(["nc [v1.10-47]"]).netcat, None, "there is no nc");
        let output = std::process::Command::new("sh").args(["-c", &question()]).output().unwrap();
        assert!(answer(String::from_utf8_lossy(&output.stdout).lines()).has("dd"));
    }

    #[test]
    fn ciphers_are_those_that_both_have_and_that_are_sound() {
        let offered = offered_ciphers("3des-cbc\naes128-cbc\naes128-ctr\naes256-gcm@openssh.com\narcfour\n");
        assert_eq!(offered, ["aes128-ctr", "aes256-gcm@openssh.com"]);
        let debug = "debug2: local client KEXINIT proposal\r\ndebug2: ciphers ctos: aes128-ctr,aes256-gcm@openssh.com\r\n\
                     debug2: peer server KEXINIT proposal\r\ndebug2: KEX algorithms: x\r\n\
                     debug2: ciphers ctos: aes256-gcm@openssh.com,x\r\n";
        assert_eq!(accepted_ciphers(&offered, debug), ["aes256-gcm@openssh.com"]);
        assert_eq!(accepted_ciphers(&offered, "nothing"), offered);
    }
}
