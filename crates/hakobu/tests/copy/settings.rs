//! Settings files are obeyed, typed options override them, and mistakes are reported with their place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::*;

/// A home directory with a settings file.
struct Home(TempDir);

impl Home {
    fn with(settings: &str) -> Self {
        let home = Self(place());
        fs::create_dir_all(home.file().parent().unwrap()).unwrap();
        home.write(settings);
        home
    }

    fn file(&self) -> PathBuf {
        self.0.path().join(".config/hakobu/config.toml")
    }

    fn write(&self, settings: &str) {
        fs::write(self.file(), settings).unwrap();
        fs::set_permissions(self.file(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(HAKOBU);
        command.args(line.split(' ')).env("HOME", self.0.path()).current_dir(self.0.path());
        for name in ["HAKOBU_SETTINGS", "HAKOBU_SSH", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command line; returns exit code, standard output and standard error.
    fn run(&self, line: &str) -> (i32, String, String) {
        ended(&mut self.command(line))
    }

    /// Returns the value of a keyword and its origin.
    #[track_caller]
    fn value(&self, line: &str, keyword: &str) -> (String, String) {
        found(&mut self.command(&format!("settings {line} --json")), keyword)
    }
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn found(command: &mut Command, keyword: &str) -> (String, String) {
    let (code, out, err) = ended(command);
    assert_eq!(code, 0, "{out}{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["schema"], "hakobu.settings/1");
    let all = shown["settings"].as_array().unwrap().iter();
    let one = all.into_iter().find(|shown| shown["keyword"] == keyword).unwrap().clone();
    let place = one.get("place").unwrap_or(&one["from"]).as_str().unwrap();
    let name = Path::new(place).file_name().unwrap().to_str().unwrap();
    (one["value"].as_str().unwrap().to_owned(), name.to_owned())
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn what_holds_is_shown_with_where_it_comes_from() {
    let home = Home::with(
        "lanes = 2\n\
         [[pair]]\n\
         source = 'localhost'\n\
         target = 'nas*'\n\
         bwlimit = '20M'\n\
         [[host]]\n\
         match = ['nas*', '!nas9']\n\
         lanes = 8\n\
         cipher = 'aes-256-gcm' # the rules of the house\n\
         ssh = 'ssh -p 2222'\n",
    );
    assert_eq!(home.value("data nas1:/b", "lanes"), pair("8", "config.toml:8"));
    assert_eq!(home.value("data nas1:/b", "bwlimit"), pair("20M", "config.toml:5"));
    assert_eq!(home.value("nas1:/b data", "bwlimit"), pair("off", "default"));
    assert_eq!(home.value("nas1", "cipher"), pair("aes-256-gcm", "config.toml:9"));
    assert_eq!(home.value("nas9", "cipher"), pair("auto", "default"));
    assert_eq!(home.value("a b", "cipher"), pair("auto", "default"));
    assert_eq!(home.value("a b", "lanes"), pair("2", "config.toml:1"));
    assert_eq!(home.value("--lanes 4 data nas1:/b", "lanes"), pair("4", "command line"));
    assert_eq!(home.value("data nas1:/b --lanes=4", "lanes"), pair("4", "command line"));
    let mut command = home.command("settings nas1 --json");
    assert_eq!(found(command.env("HAKOBU_SSH", "ssh -4"), "ssh"), pair("ssh -4", "HAKOBU_SSH"));
    assert_eq!(home.value("nas1 --settings none", "ssh"), pair("ssh", "default"));
    let (code, out, _) = home.run("settings data nas1:/b");
    let line = out.lines().find(|line| line.starts_with("cipher ")).unwrap_or_default().to_owned();
    assert!(
        code == 0 && line.contains("aes-256-gcm ") && line.ends_with("config/hakobu/config.toml:9"),
        "{out}"
    );
    assert!(out.contains("\nread: ") && out.contains("\nnot there: /etc/hakobu/config.toml\n"), "{out}");
    // Options of the login and of the network have no effect in a run on this machine alone.
    for line in ["settings", "settings a b"] {
        let mut command = home.command(line);
        let out = ended(command.env("HAKOBU_SSH", "ssh -4")).1;
        assert!(
            out.contains("\nonly for other machines, shown if one is named: ssh, agent, sudo, "),
            "{out}"
        );
        assert!(!out.contains("ssh -4") && !out.lines().any(|line| line.starts_with("ssh ")), "{out}");
    }
    let (code, out, _) = home.run("settings --help");
    assert!(code == 0 && out.contains("~/.config/hakobu/config.toml"), "{out}");
    for (line, words) in [("--lanes x a b", "--lanes: must be auto"), ("--frob", "'--frob'")] {
        let (code, _, err) = home.run(&format!("settings {line}"));
        assert!(code == 2 && err.contains(words), "{line}: {err}");
    }
}

#[test]
fn stores_have_sections_of_their_own() {
    let home = Home::with(
        "storage-class = 'STANDARD_IA'\nssh = 'ssh -4'\n\
         [[host]]\nmatch = 's3://backup-*'\nendpoint = 'http://127.0.0.1:9'\n\
         [[host]]\nmatch = 's3://public'\nno-sign-request = true\n\
         [[pair]]\nsource = 'localhost'\ntarget = 's3://*'\nlanes = 3\n",
    );
    assert_eq!(home.value("s3://backup-1/x", "endpoint"), pair("http://127.0.0.1:9", "config.toml:5"));
    assert_eq!(home.value("a s3://backup-1/x", "lanes"), pair("3", "config.toml:12"));
    assert_eq!(home.value("s3://public a", "no-sign-request"), pair("yes", "config.toml:8"));
    assert_eq!(home.value("s3://public a", "endpoint"), pair("the vendor's", "default"));
    let (_, out, _) = home.run("settings s3://public/a s3://backup-1/b");
    for words in ["endpoint (s3://backup-1) ", "no-sign-request (s3://public) "] {
        assert!(out.contains(words), "{words}: {out}");
    }
    // The login has no effect without another machine, nor do stores without one of them.
    assert!(out.contains("\nonly for other machines, shown if one is named: ssh, "), "{out}");
    assert!(
        home.run("settings a h:b").1.contains("\nonly for object stores, shown if one is named: endpoint, ")
    );
    let at = home.0.path();
    fs::write(at.join("a"), "content").unwrap();
    let (code, _, err) = home.run("copy a b");
    assert!(code == 0 && err.is_empty(), "{err}");
    let (code, _, err) = home.run("copy --endpoint nowhere a s3://public");
    assert!(code == 2 && err.contains("--endpoint: must be the URL of a server"), "{err}");
}

#[test]
fn another_machine_may_have_another_login() {
    let home = Home::with(
        "[[host]]\nmatch = 'one'\nssh = 'ssh -i first'\n[[host]]\nmatch = 'two'\nssh = 'ssh -i second'\nsudo = true\n",
    );
    let (_, out, _) = home.run("settings one:/a two:/b");
    for words in ["ssh (one) ", "ssh (two) ", "ssh -i second ", "sudo (two) "] {
        assert!(out.contains(words), "{words}: {out}");
    }
    // Each host has its own login, and a typed ssh command applies to both.
    let said = home.0.path().join("said");
    let fake = |name: &str| format!("sh -c 'echo {name} >>{}; exit 255' x", said.display());
    home.write(&format!(
        "[[host]]\nmatch = 'one'\nssh = \"{}\"\n[[host]]\nmatch = 'two'\nssh = \"{}\"\n",
        fake("first"),
        fake("second")
    ));
    home.run("copy two:/a one:/b");
    assert_eq!(fs::read_to_string(&said).unwrap().lines().next(), Some("second"));
    fs::remove_file(&said).unwrap();
    home.run("copy one:/a two:/b");
    assert_eq!(fs::read_to_string(&said).unwrap().lines().next(), Some("first"));
    fs::remove_file(&said).unwrap();
    let mut typed = home.command("copy one:/a two:/b --ssh");
    ended(typed.arg(fake("third")));
    assert_eq!(fs::read_to_string(&said).unwrap().lines().next(), Some("third"));
}

#[test]
fn a_mistake_is_told_with_its_line_and_column() {
    let home = Home::with("");
    fs::write(home.0.path().join("a"), "a").unwrap();
    for (settings, words) in [
        ("lanes = 2\nlains = 3\n", "config.toml:2:1: there is no keyword lains; did you mean lanes?"),
        (
            "[[host]]\nmatch = 'x'\n  cipher = 'rot13'\n",
            "config.toml:3:13: cipher: it is one of auto, aes-128-gcm",
        ),
        ("bwlimit = \"08:00,20M 25:00,off\"\n", "config.toml:1:22: bwlimit: \"25:00\" is not a time of day"),
        ("sudo = 'maybe'\n", "config.toml:1:9: sudo: it is true or false; this is \"maybe\""),
        ("lanes 2\n", "config.toml:1:7: "),
    ] {
        home.write(settings);
        for line in ["copy a b", "settings", "disks", "digest a", "doctor"] {
            let (code, _, err) = home.run(line);
            assert!(code == 2 && err.contains(words), "{line}, {settings:?}: {err}");
        }
    }
    assert!(!home.0.path().join("b").exists());
    // All wrong values are reported at once.
    home.write("lanes = 0\ncipher = 'x'\n");
    let (_, _, err) = home.run("copy a b");
    assert!(err.contains("config.toml:1:9") && err.contains("config.toml:2:11"), "{err}");
    // The error about an unusable option names its origin.
    home.write("verify = 'medium'\n");
    let (code, _, err) = home.run("copy a -");
    assert!(code == 2 && err.contains("(it comes from ") && err.contains("config.toml:1)"), "{err}");
    assert_eq!(home.run("copy a - --settings none").1, "a");
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let home = Home::with("lanes = 2\n");
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(home.file(), fs::Permissions::from_mode(mode)).unwrap();
        let (code, _, err) = home.run("settings");
        assert!(code == 6 && err.contains("others may write to it"), "{mode:o}: {err}");
    }
    home.write("lanes = 2\n");
    if !no_root() {
        std::os::unix::fs::chown(home.file(), Some(12345), None).unwrap();
        let (code, _, err) = home.run("copy a b");
        assert!(code == 6 && err.contains("it belongs to another user"), "{err}");
    }
}

#[test]
fn a_named_file_has_to_be_there_and_takes_the_place_of_the_others() {
    let home = Home::with("lanes = 2\n");
    let other = home.0.path().join("other");
    fs::write(&other, "cipher = 'none'\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(home.value("--settings other h", "cipher"), pair("none", "other:1"));
    assert_eq!(home.value("--settings other h", "lanes"), pair("auto", "default"));
    let mut command = home.command("settings h --json");
    assert_eq!(found(command.env("HAKOBU_SETTINGS", &other), "cipher"), pair("none", "other:1"));
    let mut command = home.command("settings h --json");
    command.env("HAKOBU_SETTINGS", "").env("XDG_CONFIG_HOME", home.0.path().join("nowhere"));
    assert_eq!(found(&mut command, "lanes"), pair("auto", "default"));
    for (name, words) in [("missing", "no such file"), (".config", "regular file")] {
        let (code, _, err) = home.run(&format!("copy a b --settings {name}"));
        assert!(code != 0 && err.contains("reading the settings in ") && err.contains(words), "{err}");
    }
}

#[test]
fn what_is_set_is_done_and_said() {
    let (host, home) = (Host::up(), Home::with(""));
    home.write(&format!(
        "ssh = '{}'\ncipher = 'chacha20-poly1305'\nlanes = 3\nbwlimit = '300M'\nby-name = true\n",
        host.sshd.ssh_command()
    ));
    let source = file(&home.0.path().join("source"), 1_000_000);
    let (target, report) = (home.0.path().join("target"), home.0.path().join("report"));
    let mut copy = home.command("copy --why --report");
    let (code, _, err) = ended(copy.arg(&report).arg(&source).arg(host.at(&target)));
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("lanes: 3") && err.contains("config.toml:3") && err.contains("at most 300 MB/s"),
        "{err}"
    );
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!(report["cipher"], "chacha20-poly1305");
    assert_same(&source, &target);
    // A command ignores settings that it does not use.
    let mut verify = home.command("verify");
    let (code, _, err) = ended(verify.arg(&source).arg(host.at(&target)));
    assert_eq!(code, 0, "{err}");
    for verb in ["digest", "disks"] {
        let mut command = home.command(verb);
        match verb {
            "digest" => command.arg(host.at(&target)),
            _ => command.arg("throwaway"),
        };
        let (code, _, err) = ended(&mut command);
        assert_eq!(code, 0, "{verb}: {err}");
    }
}

#[test]
fn a_file_in_the_former_format_is_not_passed_over() {
    let home = Home::with("");
    let former = home.file().with_extension("");
    fs::rename(home.file(), &former).unwrap();
    let (code, _, err) = home.run("settings");
    assert!(
        code == 2 && err.contains("settings are TOML now: rewrite it as ") && err.contains("--help"),
        "{err}"
    );
    home.write("lanes = 3\n");
    assert_eq!(home.value("", "lanes"), pair("3", "config.toml:1"));
}
